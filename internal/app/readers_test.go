package app

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// slowLog is a log of which each page takes a second.
type slowLog struct {
	eventlog.Source
	mu                   sync.Mutex
	reading, most, pages int
}

func (l *slowLog) Events(context.Context, string, store.EventQuery, func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	l.note(1, 0)
	time.Sleep(time.Second)
	l.note(-1, 1)
	return 0, false, nil
}

func (l *slowLog) note(reading, pages int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading += reading
	l.pages += pages
	l.most = max(l.most, l.reading)
}

// TestReadersLeaveRoom has more readers than may read at the same time, all of whom get a
// page, and one user who reads alone.
func TestReadersLeaveRoom(t *testing.T) {
	processors := max(1, runtime.GOMAXPROCS(0)/2)
	tests := map[string]struct {
		options Options
		turns   int
	}{
		"a directory": {Options{}, processors},
		"a database":  {Options{DatabaseURLs: []string{"postgres://h"}, Connections: 100}, max(processors, 50)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			readers := 4 * test.turns
			if most := readAtOnce(t, test.options, readers, "ann", "bob"); most != test.turns {
				t.Errorf("%d read at the same time, want %d", most, test.turns)
			}
			if most := readAtOnce(t, test.options, readers, "ann"); test.turns > 1 && most >= test.turns {
				t.Errorf("a user has %d of %d turns, and leaves none", most, test.turns)
			}
		})
	}
}

// readAtOnce lets each user read so many pages at the same time, and returns how many did at
// the same time.
func readAtOnce(t *testing.T, options Options, each int, users ...string) (most int) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLog{}
		readers := newReaders(options)
		log := takingTurns{slow, readers}
		var reading sync.WaitGroup
		for range each {
			for _, user := range users {
				reading.Go(func() {
					if _, _, err := log.Events(t.Context(), user, store.EventQuery{}, nil); err != nil {
						t.Error(err)
					}
				})
			}
		}
		reading.Wait()
		if want := each * len(users); slow.pages != want {
			t.Errorf("%d pages were read, want %d", slow.pages, want)
		}
		most = slow.most
	})
	return most
}

// TestReadersPauseWhileOthersWait reads a page alone, and pages for which readers wait.
func TestReadersPauseWhileOthersWait(t *testing.T) {
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	tests := map[string]struct {
		options Options
		pages   int
		want    time.Duration
	}{
		"one reader":          {Options{}, 1, time.Second},
		"two for each turn":   {Options{}, 2 * turns, 3 * time.Second}, // the last ones pause for nobody
		"those of a database": {Options{DatabaseURLs: []string{"postgres://h"}, Connections: 2 * turns}, 2 * turns, 2 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := takingTurns{&slowLog{}, newReaders(test.options)}
				began := time.Now()
				var reading sync.WaitGroup
				for i := range test.pages {
					reading.Go(func() { _, _, _ = log.Events(t.Context(), strconv.Itoa(i), store.EventQuery{}, nil) })
				}
				reading.Wait()
				if took := time.Since(began); took != test.want {
					t.Errorf("%d pages of a second took %v, want %v", test.pages, took, test.want)
				}
			})
		})
	}
}

// TestReaderGivesUpItsTurn has a reader go away that waits.
func TestReaderGivesUpItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readers := newReaders(Options{})
		log := takingTurns{&slowLog{}, readers}
		var reading sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			reading.Go(func() { _, _, _ = log.Events(t.Context(), "ann", store.EventQuery{}, nil) })
		}
		synctest.Wait()
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if _, _, err := log.Events(ctx, "bob", store.EventQuery{}, nil); !errors.Is(err, gone) {
			t.Errorf("Events = %v, want the cause", err)
		}
		reading.Wait()
	})
}
