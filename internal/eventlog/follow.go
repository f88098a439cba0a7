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

// pageSize is how many entries a follower reads at once.
const pageSize = 1000

// lateTime is how long after a date entries of before it may still be written: an entry
// has the time at which its writing began, and a commit may take as long as stores let it.
const lateTime = 15 * time.Second

// Follower visits the log as it grows, oldest entry first. It reads what is stored, page by page,
// and once it has read to the end, takes new entries from its queue. One that falls behind misses
// nothing and holds nobody up. It is for one goroutine. The caller must call Close.
type Follower struct {
	// Reserve is called before entries are visited, and may wait for room for a page of them.
	// When it fails, Next does. nil: there always is room.
	Reserve func(context.Context) error

	// Release gives that room back when nothing was found. nil: there is nothing to give.
	Release func()

	log   *Log
	user  string
	query store.EventQuery // what is left to be read
	left  int              // entries that may still be visited, of query.Limit
	queue *queue           // of entries from queue.first on; nil while it is further behind
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
	return &Follower{log: l, user: user, query: query, left: query.Limit}, nil
}

// Mark is where Follow continues: after an entry, or after all that was read so far.
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
		step := f.read
		if f.queue != nil && f.query.Low >= f.queue.first {
			step = f.take
		}
		before := f.left
		if more, err := step(ctx, timeout.C, visit); !more || err != nil || f.left < before {
			return err
		}
		if f.Release != nil {
			f.Release()
		}
	}
	return io.EOF
}

// Close ends the follower's part in the log's work. Next must not be called any more.
func (f *Follower) Close() {
	if f.queue != nil {
		f.log.leave(f.queue)
		f.queue = nil
	}
}

// over is when nothing can be written any more that matches: far away without a toDate.
func (f *Follower) over() time.Time {
	return f.query.High.Time().Add(time.Millisecond + lateTime) // toDate is the whole of its millisecond
}

func (f *Follower) reserve(ctx context.Context) error {
	if f.Reserve == nil {
		return nil
	}
	return f.Reserve(ctx)
}

// read visits the next page of what is stored, which may be empty: before something matches there
// may be many pages without. more is false after the timeout.
func (f *Follower) read(ctx context.Context, timeout <-chan time.Time, visit func(mark Mark, entry *store.Entry) error) (more bool, err error) {
	select {
	case <-timeout:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	default:
	}
	if err := f.reserve(ctx); err != nil {
		return false, err
	}
	over := f.queue == nil && !time.Now().Before(f.over())
	var end posthaste.Position
	if f.queue != nil {
		end = f.queue.first - 1
	} else if end, _, err = f.log.store.Watch(ctx, f.user); err != nil {
		return false, fmt.Errorf("follow log: %w", err)
	}
	query := f.query
	query.High = min(query.High, end)
	query.Limit, query.Bytes = min(f.left, pageSize), pieceBytes
	next, more, err := f.log.store.Events(ctx, f.user, query, func(entry *store.Entry) error {
		f.left--
		return visit(f.mark(entry.Position+1, f.left), entry)
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("follow log: %w", err)
	case more:
		f.query.Low = next
	case over:
		f.query.Low = f.query.High + 1
	default:
		f.query.Low = max(f.query.Low, query.High+1)
		if f.queue == nil && !f.Ended() {
			f.queue = f.log.join(f.user, &f.query, end)
		}
	}
	return true, nil
}

// take waits for entries in the queue and visits them. more is false after the timeout.
func (f *Follower) take(ctx context.Context, timeout <-chan time.Time, visit func(mark Mark, entry *store.Entry) error) (more bool, err error) {
	over := time.NewTimer(max(time.Nanosecond, time.Until(f.over()))) // never 0: golang/go#78156
	defer over.Stop()
	closed := false
	select {
	case <-f.queue.ready:
	case <-over.C:
		closed = true // what is stored decides
	case <-timeout:
		f.query.Low = max(f.query.Low, f.queue.offered())
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if err := f.reserve(ctx); err != nil {
		return false, err
	}
	entries, next, full, err := f.queue.take()
	if err != nil {
		return false, err
	}
	for i := range entries {
		if f.left == 0 {
			return true, nil
		}
		f.left--
		if err := visit(f.mark(entries[i].Position+1, f.left), &entries[i]); err != nil {
			f.Close() // the rest of what was taken is in the store
			return false, err
		}
	}
	f.query.Low = max(f.query.Low, next)
	if closed || full {
		f.Close()
	}
	return true, nil
}
