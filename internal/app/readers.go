package app

import (
	"context"
	"runtime"
	"time"

	"posthaste/internal/admission"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// readersPatience is how long a reader waits for a turn, which lasts some milliseconds.
const readersPatience = 30 * time.Second

// newReaders leaves half of the processors to those who do not read logs.
func newReaders() *admission.Gate {
	turns := int64(max(1, runtime.GOMAXPROCS(0)/2))
	return admission.New(admission.Options{Capacity: turns, Share: turns, Patience: readersPatience})
}

// takingTurns is a log whose readers take turns. A turn is one page of the store, whose
// work is bounded.
type takingTurns struct {
	eventlog.Source
	readers *admission.Gate
}

// Events implements store.Log.
func (l takingTurns) Events(ctx context.Context, user string, query store.EventQuery) (store.EventPage, error) {
	if err := l.readers.Enter(ctx, user, 1); err != nil {
		return store.EventPage{}, err
	}
	defer l.readers.Leave(user, 1)
	return l.Source.Events(ctx, user, query)
}
