package background

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWorkGivesWay asks the operating system for the priority of the work, and of who
// asked for it.
func TestWorkGivesWay(t *testing.T) {
	threads := Start(1)
	defer threads.Close()
	asker, err := priority()
	if err != nil {
		t.Fatal(err)
	}
	var work int
	threads.Do(func() { work, err = priority() })
	if err != nil {
		t.Fatal(err)
	}
	if want := min(asker+niceness, 19); work != want {
		t.Errorf("work has the niceness %d, want %d", work, want)
	}
	if again, err := priority(); err != nil || again != asker {
		t.Errorf("the niceness of who asks is now %d, %v, and was %d", again, err, asker)
	}
}

// TestStandBack shares a processor with a thread that counts, and looks whether it has
// counted while this one stood back: it never does while this one only works.
func TestStandBack(t *testing.T) {
	const times = 100
	var counted, stop atomic.Int64
	var counting sync.WaitGroup
	counting.Go(func() {
		share(t)
		for stop.Load() == 0 {
			counted.Add(1)
		}
	})
	var ran int
	counting.Go(func() {
		defer stop.Store(1)
		share(t)
		for counted.Load() == 0 {
			standBack()
		}
		for range times {
			before := counted.Load()
			standBack()
			if counted.Load() > before {
				ran++
			}
		}
	})
	counting.Wait()
	if ran < times/10 {
		t.Errorf("the other thread ran %d of %d times", ran, times)
	}
}

// share binds the thread that calls it to the first processor the process may use, and
// ends it with its goroutine.
func share(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(thisThread, &all); err != nil {
		t.Error(err)
	}
	for cpu := 0; ; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(thisThread, &one); err != nil {
		t.Error(err)
	}
}
