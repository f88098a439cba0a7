package app

import (
	"context"
	"runtime"
	"time"

	"posthaste"
	"posthaste/internal/admission"
	"posthaste/internal/background"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// readersPatience is how long a reader waits for a turn, which lasts some milliseconds.
const readersPatience = 30 * time.Second

// readers are those who read logs and dead letters. Their work is work for a processor
// and nothing else. They share half of what there is and take turns; within a turn they
// give way to those who publish and deliver.
type readers struct {
	turns      *admission.Gate
	threads    *background.Threads    // nil: the work is a database's
	foreground *background.Foreground // nil: there is none here
}

// newReaders leaves half of what reading takes to those who do not: of the processors,
// or, where a database does the work, of the connections to it.
func newReaders(options Options, foreground *background.Foreground) readers {
	processors := max(1, runtime.GOMAXPROCS(0)/2)
	if options.DatabaseURL != "" {
		return readers{turns: share(int64(max(processors, options.Connections/2)), readersPatience)}
	}
	return readers{share(int64(processors), readersPatience), background.Start(processors), foreground}
}

// Do runs work when the user's turn has come. It returns what the work returns, or why
// there was no turn.
func (r readers) Do(ctx context.Context, user string, work func() error) error {
	if err := r.turns.Enter(ctx, user, 1); err != nil {
		return err
	}
	defer r.turns.Leave(user, 1)
	if r.threads == nil {
		return work()
	}
	r.foreground.GiveWay() // here, since a thread of its own is woken at greater cost
	var err error
	r.threads.Do(func() { err = work() })
	return err
}

// close ends what readers work on. Who reads after that gives way to nobody.
func (r readers) close() {
	if r.threads != nil {
		r.threads.Close()
	}
}

// takingTurns is a log whose readers take turns. A turn is one page of the store, whose
// work is bounded, with what its visitor makes of it.
type takingTurns struct {
	eventlog.Source
	readers readers
}

// Events implements store.Log.
func (l takingTurns) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	err = l.readers.Do(ctx, user, func() error {
		next, more, err = l.Source.Events(ctx, user, query, visit)
		return err
	})
	return next, more, err
}
