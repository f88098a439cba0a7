package background

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDoRunsAllWork(t *testing.T) {
	threads := Start(2)
	defer threads.Close()
	var callers sync.WaitGroup
	var done atomic.Int64
	for range 50 {
		callers.Go(func() {
			for range 100 {
				threads.Do(func() { done.Add(1) })
			}
		})
	}
	callers.Wait()
	if got := done.Load(); got != 5000 {
		t.Errorf("%d pieces of work were done, want 5000", got)
	}
}

// TestDoPanicsLikeItsWork has a bug in some work reach who asked for it, and nobody else.
func TestDoPanicsLikeItsWork(t *testing.T) {
	threads := Start(1)
	defer threads.Close()
	func() {
		defer func() {
			text, _ := recover().(string)
			if !strings.HasPrefix(text, "a bug") || !strings.Contains(text, "TestDoPanicsLikeItsWork") {
				t.Errorf("Do panicked with %q, want what its work did, and where", text)
			}
		}()
		threads.Do(func() { panic("a bug") })
	}()
	did := false
	threads.Do(func() { did = true })
	if !did {
		t.Error("the thread is gone")
	}
}

// TestClose closes while work is asked for, all of which is done.
func TestClose(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	threads := Start(3)
	var callers sync.WaitGroup
	var done atomic.Int64
	for range 20 {
		callers.Go(func() {
			for range 50 {
				threads.Do(func() { done.Add(1) })
			}
		})
	}
	threads.Close()
	threads.Close()
	callers.Wait()
	if got := done.Load(); got != 1000 {
		t.Errorf("%d pieces of work were done, want 1000", got)
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("the runtime may use %d threads afterwards, and %d before", after, before)
	}
}
