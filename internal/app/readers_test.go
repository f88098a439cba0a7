package app

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// slowLog is a log of which each page takes a second.
type slowLog struct {
	eventlog.Source
	mu                   sync.Mutex
	reading, most, pages int
}

func (l *slowLog) Events(context.Context, string, store.EventQuery) (store.EventPage, error) {
	l.note(1, 0)
	time.Sleep(time.Second)
	l.note(-1, 1)
	return store.EventPage{}, nil
}

func (l *slowLog) note(reading, pages int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading += reading
	l.pages += pages
	l.most = max(l.most, l.reading)
}

// TestReadersLeaveProcessors has more readers than processors, all of whom get a page.
func TestReadersLeaveProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLog{}
		log := takingTurns{slow, newReaders()}
		readers := 4 * runtime.GOMAXPROCS(0)
		var reading sync.WaitGroup
		for range readers {
			reading.Go(func() {
				if _, err := log.Events(t.Context(), "ann", store.EventQuery{}); err != nil {
					t.Error(err)
				}
			})
		}
		reading.Wait()
		if want := max(1, runtime.GOMAXPROCS(0)/2); slow.most != want {
			t.Errorf("%d read at the same time, want %d", slow.most, want)
		}
		if slow.pages != readers {
			t.Errorf("%d pages were read, want %d", slow.pages, readers)
		}
	})
}

// TestReaderGivesUpItsTurn has a reader go away that waits.
func TestReaderGivesUpItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := takingTurns{&slowLog{}, newReaders()}
		var reading sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			reading.Go(func() { _, _ = log.Events(t.Context(), "ann", store.EventQuery{}) })
		}
		synctest.Wait()
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, err := log.Events(ctx, "bob", store.EventQuery{}); !errors.Is(err, gone) {
			t.Errorf("Events = %v, want the cause", err)
		}
		reading.Wait()
	})
}
