package eventlog

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// restTime is how long a follower that has read all there is lets more gather. The
// first entry after a silence does not wait; under load one read serves for many
// commits. Of whom more than DefaultCount entries come meanwhile the next page waits for
// nothing.
const restTime = 250 * time.Millisecond

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
	left    int              // entries that may still be visited
	bounded bool             // by a count
	grown   <-chan struct{}  // to wait for before the next read; nil if there is more already
	endedAt time.Time        // when it had read to the end
}

// Follow returns a reader of the entries that parameters ask for as they are
// written. It begins behind the entry with the mark that the client has read last,
// at the cursor, or at fromDate, whatever is given and latest; else with what is
// written from now on. A count bounds it, without a maximum, and so does toDate: what is
// written after that cannot match. A bad value is an Error with CodeInvalid.
func (l *Log) Follow(ctx context.Context, user string, params url.Values, last string) (*Follower, error) {
	query, fromNow, err := parseFollow(params, last)
	if err != nil {
		return nil, err
	}
	// A follower that continues from a cursor asks, too: a store that does not answer is
	// reported before the stream begins.
	end, _, err := l.store.Watch(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("follow log: %w", err)
	}
	if fromNow {
		query.Low = end + 1
	}
	return &Follower{store: l.store, user: user, query: query, left: query.Limit, bounded: query.Limit < math.MaxInt}, nil
}

// parseFollow translates the parameters of Follow. Its order is earliestFirst,
// which decides what a cursor means.
func parseFollow(params url.Values, last string) (query store.EventQuery, fromNow bool, err error) {
	ascending := url.Values{}
	maps.Copy(ascending, params)
	if ascending.Get("order") == "" {
		ascending.Set("order", "earliestFirst")
	}
	query, err = wire.Events(ascending, wire.Count{Default: math.MaxInt})
	if err != nil {
		return query, false, err
	}
	if !query.OldestFirst {
		return query, false, posthaste.Invalidf("order latestFirst is not possible here: entries are sent as they are written, give earliestFirst or none")
	}
	if last == "" {
		return query, params.Get("cursor") == "" && params.Get("fromDate") == "", nil
	}
	next, left, ok := parseMark(last)
	if !ok {
		return query, false, posthaste.Invalidf("Last-Event-ID %.100q is not the id of an event of this stream or a Unix time in milliseconds", last)
	}
	query.Low, query.Limit = max(query.Low, next), min(query.Limit, left)
	return query, false, nil
}

// A mark is a cursor. Where a count bounds the stream, a hyphen follows and how many
// entries are left of it, so that a client that goes on with the same request gets these
// and not as many as in the beginning.
const markHyphen = "-"

// parseMark reads a mark, or a time, which will do as a cursor. What is left is very much
// if it is not said.
func parseMark(text string) (next posthaste.Position, left int, ok bool) {
	cursor, leftText, counted := strings.Cut(text, markHyphen)
	query, err := wire.Events(url.Values{"order": {"earliestFirst"}, "cursor": {cursor}}, wire.Count{})
	if err != nil || !counted {
		return query.Low, math.MaxInt, err == nil
	}
	number, err := strconv.ParseUint(leftText, 10, strconv.IntSize-1)
	return query.Low, int(number), err == nil && wire.Cursor(query.Low) == cursor
}

func (f *Follower) mark(next posthaste.Position, left int) string {
	if !f.bounded {
		return wire.Cursor(next)
	}
	return wire.Cursor(next) + markHyphen + strconv.Itoa(left)
}

// Mark returns the text by which Follow goes on behind all that was read so far,
// whether it matched or not.
func (f *Follower) Mark() string { return f.mark(f.query.Low, f.left) }

// Ended reports whether nothing can come any more: the count is reached, or toDate has
// passed and all that was written until then was read.
func (f *Follower) Ended() bool { return f.left == 0 || f.query.Low > f.query.High }

// Next visits the next entries, each with the text by which Follow goes on behind it. It waits
// for them and looks for them, but no longer than patience, after which it has visited none;
// what Reserve waits comes on top of that. At the end, see Ended, it returns io.EOF.
func (f *Follower) Next(ctx context.Context, patience time.Duration, visit func(mark string, entry *store.Entry) error) error {
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
func (f *Follower) read(ctx context.Context, visit func(mark string, entry *store.Entry) error) error {
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
	query.Limit, query.Bytes = min(f.left, DefaultCount), pieceBytes
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
