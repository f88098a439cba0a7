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

// readersPatience is how long a reader waits for a turn, which lasts some milliseconds.
const readersPatience = 30 * time.Second

// shortTurn is the longest turn without a pause after it. Followers' turns are shorter.
const shortTurn = time.Millisecond

// readers are those who read logs and dead letters. Their work is work for a processor
// and nothing else. They share half of what there is and take turns.
type readers struct {
	turns  *admission.Gate
	pauses bool // the work is done in this process, not by a database
}

// newReaders leaves half of what reading takes to those who do not: of the processors,
// or, where a database does the work, of the connections to it.
func newReaders(options Options) readers {
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	if options.DatabaseURL != "" {
		return readers{turns: share(int64(max(turns, options.Connections/2)), readersPatience)}
	}
	return readers{turns: share(int64(turns), readersPatience), pauses: true}
}

// Do runs work when the user's turn has come. It returns what the work returns, or why
// there was no turn. While other readers wait, a turn ends with a pause as long as its work,
// unless that was short: readers that never stop would slow down deliveries on a busy machine.
func (r readers) Do(ctx context.Context, user string, work func() error) error {
	if err := r.turns.Enter(ctx, user, 1); err != nil {
		return err
	}
	defer r.turns.Leave(user, 1)
	began := time.Now()
	err := work()
	if took := time.Since(began); r.pauses && took > shortTurn && r.turns.Usage().Waiting > 0 {
		time.Sleep(took)
	}
	return err
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
