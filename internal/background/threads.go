// Package background runs work that gives way to all other work of the process.
//
// The scheduler of Go knows no priorities: a goroutine that computes keeps its
// processor for up to 10 ms, whoever has become ready meanwhile. The operating system
// does know them, for threads. So the work is done on threads of its own, to which the
// operating system gives what the others leave, and the runtime may use so many
// threads more than before: it takes a thread that was set aside for one that works.
//
// Where priorities are those of whole processes the work is done all the same, like any
// other: see lowerPriority for the systems.
package background

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// Threads are threads that give way. They may be used by many goroutines. Make them with
// Start.
type Threads struct {
	work    chan func()
	closed  chan struct{}
	close   func()
	running sync.WaitGroup
}

// Start starts so many threads, which run until Close.
func Start(count int) *Threads {
	t := &Threads{work: make(chan func()), closed: make(chan struct{})}
	t.close = sync.OnceFunc(func() {
		close(t.closed)
		t.running.Wait()
		allow(-count)
	})
	allow(count)
	for range count {
		t.running.Go(t.serve)
	}
	return t
}

// Do runs work on one of the threads, when one is free, and returns when it has ended.
// If it panics, Do does. After Close the work is run where Do is called.
func (t *Threads) Do(work func()) {
	ended := make(chan any, 1)
	select {
	case t.work <- func() { ended <- panicOf(work) }:
		if cause := <-ended; cause != nil {
			panic(cause)
		}
	case <-t.closed:
		work()
	}
}

// Close ends the threads as soon as they have ended their work.
func (t *Threads) Close() { t.close() }

func (t *Threads) serve() {
	runtime.LockOSThread() // and never unlocked, so that the thread ends with this function
	lowerPriority()
	for {
		select {
		case work := <-t.work:
			work()
		case <-t.closed:
			return
		}
	}
}

// panicOf runs work and returns what it panicked with and where, or nil.
func panicOf(work func()) (cause any) {
	defer func() {
		if cause = recover(); cause != nil {
			cause = fmt.Sprintf("%v\n\n%s", cause, debug.Stack())
		}
	}()
	work()
	return nil
}

var allowing sync.Mutex

// allow lets the runtime use so many threads more, or fewer, at the same time.
func allow(more int) {
	if !hasPriorities {
		return
	}
	allowing.Lock()
	defer allowing.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + more)
}
