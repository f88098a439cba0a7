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

// newReaders leaves half of what reading logs takes to those who do not: of the processors,
// or, where a database does the work, of the connections to it.
func newReaders(options Options) *admission.Gate {
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	if options.DatabaseURL != "" {
		turns = max(turns, options.Connections/2)
	}
	return share(int64(turns), readersPatience)
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
