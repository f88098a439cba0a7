package app

import (
	"context"
	"runtime"
	"time"

	"posthaste"
	"posthaste/internal/admission"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// readersPatience is how long a reader waits for its turn, which lasts some milliseconds.
const readersPatience = 30 * time.Second

// newReaders returns the gate of those who read logs and dead letters, whose work is all
// processor time. It leaves half to deliveries and to those who publish: of the processors, or,
// where a database does the work, of the connections to it.
func newReaders(options Options) *admission.Gate {
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	if len(options.DatabaseURLs) > 0 {
		return admission.New(shares(int64(max(turns, options.Connections/2)), readersPatience))
	}
	gate := shares(int64(turns), readersPatience)
	gate.Pauses = true
	return admission.New(gate)
}

// takingTurns is a log whose readers pass a gate for each page of the store. Its work is
// bounded, with that of the visitor.
type takingTurns struct {
	eventlog.Source
	readers *admission.Gate
}

// Events implements store.Log.
func (l takingTurns) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	err = l.readers.Do(ctx, user, func() error {
		next, more, err = l.Source.Events(ctx, user, query, visit)
		return err
	})
	return next, more, err
}

// Counts implements store.Log.
func (l takingTurns) Counts(ctx context.Context, user string, from, until time.Time, visit func(*store.Count)) error {
	return l.readers.Do(ctx, user, func() error { return l.Source.Counts(ctx, user, from, until, visit) })
}
