package background

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// TestStandBack looks whether a thread that shares a processor with this one works while
// this one stands back: it hardly ever does in so short a time otherwise.
func TestStandBack(t *testing.T) {
	const times, enough = 20_000, 3 // of a fraction of a microsecond if nobody runs
	if ran := besideAnother(t, times, enough, standBack); ran < enough {
		t.Errorf("the other thread ran %d of %d times", ran, times)
	}
}

// TestLettingOthersRunIsNoStarving gives way often, beside a thread that always wants the
// processor: it gets it once for a slice, and has to wait for as long then.
func TestLettingOthersRunIsNoStarving(t *testing.T) {
	const (
		times = 1000
		piece = 20 * time.Microsecond
	)
	f := NewForeground()
	ran := besideAnother(t, times, times, func() {
		for began := time.Now(); time.Since(began) < piece; {
		}
		f.GiveWay()
	})
	if ran == 0 || ran > times/4 {
		t.Errorf("the other thread ran %d of %d times", ran, times)
	}
}

// besideAnother calls work several times on a thread that shares a processor with another,
// which counts, and returns in how many of the calls that one has counted. It stops when
// they are enough.
func besideAnother(t *testing.T, times, enough int, work func()) (ran int) {
	allow(2) // threads at the same time, on a machine with one processor, too
	defer allow(-2)
	var counted atomic.Int64
	var ended atomic.Bool
	var threads sync.WaitGroup
	threads.Go(func() {
		bind(t)
		for !ended.Load() {
			counted.Add(1)
		}
	})
	threads.Go(func() {
		defer ended.Store(true)
		bind(t)
		for counted.Load() == 0 {
			standBack()
		}
		for n := 0; n < times && ran < enough; n++ {
			before := counted.Load()
			if work(); counted.Load() > before {
				ran++
			}
		}
	})
	threads.Wait()
	return ran
}

// bind keeps a goroutine on a thread of its own, on the first processor that the process
// may use.
func bind(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked, so that the thread ends with the goroutine
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(thisThread, &all); err != nil {
		t.Error(err)
		return
	}
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	first.Set(cpu)
	if err := unix.SchedSetaffinity(thisThread, &first); err != nil {
		t.Error(err)
	}
}
