package eventlog

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// restTime is how long a follower that has read all there is lets more gather. The
// first entry after a silence does not wait; under load one read serves for many
// commits. If more than pageSize entries come meanwhile, the next page waits for nothing.
const restTime = 250 * time.Millisecond

// pageSize is how many entries a follower reads at once.
const pageSize = 1000

// lateTime is how long after a date entries of before it may still be written: an entry
// has the time at which its writing began, and a commit may take as long as stores let it.
const lateTime = 15 * time.Second

// Follower reads the log as it grows, oldest entry first. It reads what is stored
// and is only woken by what is written: one that falls behind misses nothing and
// holds nobody up. It is for one goroutine.
type Follower struct {
	// Reserve is called before each read, and may wait for room for what will be read.
	// When it fails, Next does. nil: there always is room.
	Reserve func(context.Context) error

	// Release gives that room back when nothing was found. nil: there is nothing to give.
	Release func()

	store   Source
	user    string
	query   store.EventQuery // what is left to be read
	left    int              // entries that may still be visited, of query.Limit
	grown   <-chan struct{}  // to wait for before the next read; nil if there is more already
	endedAt time.Time        // when it had read to the end
}

// Follow returns a reader of the entries that a query selects as they are written, oldest first.
// It begins at the query's Low or, fromNow, with what is written from now on. The query's limit
// bounds the whole, unless it is Unbounded, and so does High: what is written after that cannot
// match.
func (l *Log) Follow(ctx context.Context, user string, query store.EventQuery, fromNow bool) (*Follower, error) {
	query.OldestFirst = true
	// A follower that continues from a cursor asks, too: a store that does not answer is
	// reported before the stream begins.
	end, _, err := l.store.Watch(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("follow log: %w", err)
	}
	if fromNow {
		query.Low = end + 1
	}
	return &Follower{store: l.store, user: user, query: query, left: query.Limit}, nil
}

// Mark is where Follow goes on: after an entry, or after all that was read so far.
type Mark struct {
	Next posthaste.Position
	Left int // entries that may still be visited; Unbounded: any number
}

// Unbounded is the limit of a query that a follower or an export reads to its end.
const Unbounded = math.MaxInt

func (f *Follower) mark(next posthaste.Position, left int) Mark {
	if f.query.Limit == Unbounded {
		left = Unbounded
	}
	return Mark{next, left}
}

// Mark returns the mark after all that was read so far, whether it matched or not.
func (f *Follower) Mark() Mark { return f.mark(f.query.Low, f.left) }

// Ended reports whether nothing can come any more: the count is reached, or toDate has
// passed and all that was written until then was read.
func (f *Follower) Ended() bool { return f.left == 0 || f.query.Low > f.query.High }

// Next visits the next entries, each with the mark after it. It waits for them and looks for
// them, but no longer than patience, after which it has visited none; what Reserve waits comes on
// top of that. At the end, see Ended, it returns io.EOF.
func (f *Follower) Next(ctx context.Context, patience time.Duration, visit func(mark Mark, entry *store.Entry) error) error {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for !f.Ended() {
		if ready, err := f.wait(ctx, timeout.C); !ready {
			return err
		}
		before := f.left
		if err := f.read(ctx, visit); err != nil || f.left < before {
			return err
		}
		if f.Release != nil {
			f.Release()
		}
	}
	return io.EOF
}

// over is when nothing can be written any more that matches: far away without a toDate.
func (f *Follower) over() time.Time {
	return f.query.High.Time().Add(time.Millisecond + lateTime) // toDate is the whole of its millisecond
}

// wait waits until there may be something to read, or the end, and reports whether that
// is so.
func (f *Follower) wait(ctx context.Context, timeout <-chan time.Time) (ready bool, err error) {
	if f.grown == nil {
		return f.mayGoOn(ctx, timeout)
	}
	over := time.NewTimer(max(time.Nanosecond, time.Until(f.over()))) // never 0: golang/go#78156
	defer over.Stop()
	select {
	case <-f.grown:
	case <-over.C:
		return true, nil
	case <-timeout:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	rest := time.Until(f.endedAt.Add(restTime))
	if rest <= 0 {
		return true, nil
	}
	select {
	case <-time.After(rest):
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// mayGoOn reports whether there is time for a further page of what is stored: before
// something matches there may be many that are empty.
func (f *Follower) mayGoOn(ctx context.Context, timeout <-chan time.Time) (bool, error) {
	select {
	case <-timeout:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	default:
		return true, nil
	}
}

// read visits the next page of what is stored, which may be empty.
func (f *Follower) read(ctx context.Context, visit func(mark Mark, entry *store.Entry) error) error {
	if f.Reserve != nil {
		if err := f.Reserve(ctx); err != nil {
			return err
		}
	}
	over := !time.Now().Before(f.over())
	end, grown, err := f.store.Watch(ctx, f.user)
	if err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	query := f.query
	query.High = min(query.High, end)
	query.Limit, query.Bytes = min(f.left, pageSize), pieceBytes
	next, more, err := f.store.Events(ctx, f.user, query, func(entry *store.Entry) error {
		f.left--
		return visit(f.mark(entry.Position+1, f.left), entry)
	})
	if err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	if more {
		f.query.Low, f.grown = next, nil
		return nil
	}
	f.query.Low, f.grown = max(f.query.Low, query.High+1), grown
	if over {
		f.query.Low = f.query.High + 1
	}
	f.endedAt = time.Now()
	return nil
}
