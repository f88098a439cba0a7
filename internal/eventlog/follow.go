package eventlog

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"time"

	"posthaste"
	"posthaste/internal/selection"
	"posthaste/internal/store"
)

// restTime is how long a follower that has read all there is lets more gather. The
// first entry after a silence does not wait; under load one read serves for many
// commits.
const restTime = 100 * time.Millisecond

// Follower reads the log as it grows, oldest entry first. It reads what is stored
// and is only woken by what is written: one that falls behind misses nothing and
// holds nobody up. It is for one goroutine.
type Follower struct {
	store    Source
	user     string
	query    store.EventQuery // what is left to be read
	left     int              // entries that may still be returned
	grown    <-chan struct{}  // to wait for before the next read; nil if there is more already
	restedAt time.Time        // when the next read may be
}

// Follow returns a reader of the entries that parameters ask for as they are
// written. It begins behind the entry with the mark that the client has read last,
// at the cursor, or at fromDate, whatever is given and latest; else with what is
// written from now on. A count bounds it, without a maximum. A bad value is an
// Error with CodeInvalid.
func (l *Log) Follow(ctx context.Context, user string, params url.Values, last string) (*Follower, error) {
	query, fromNow, err := parseFollow(params, last)
	if err != nil {
		return nil, err
	}
	if fromNow {
		end, _, err := l.store.Watch(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("follow log: %w", err)
		}
		query.Low = end + 1
	}
	return &Follower{store: l.store, user: user, query: query, left: query.Limit}, nil
}

// parseFollow translates the parameters of Follow. Its order is earliestFirst,
// which decides what a cursor means.
func parseFollow(params url.Values, last string) (query store.EventQuery, fromNow bool, err error) {
	ascending := url.Values{}
	maps.Copy(ascending, params)
	if ascending.Get("order") == "" {
		ascending.Set("order", "earliestFirst")
	}
	query, err = selection.Events(ascending, selection.Count{Default: math.MaxInt})
	if err != nil {
		return query, false, err
	}
	if !query.OldestFirst {
		return query, false, posthaste.Invalidf("order latestFirst is not possible here: entries are sent as they are written, give earliestFirst or none")
	}
	if last == "" {
		return query, params.Get("cursor") == "" && params.Get("fromDate") == "", nil
	}
	behind, err := selection.Events(url.Values{"order": {"earliestFirst"}, "cursor": {last}}, selection.Count{})
	if err != nil {
		return query, false, posthaste.Invalidf("Last-Event-ID %.100q is not the id of an event of this stream or a Unix time in milliseconds", last)
	}
	query.Low = max(query.Low, behind.Low)
	return query, false, nil
}

// Mark returns the text by which Follow goes on behind an entry. It is a cursor.
func Mark(entry store.Entry) string { return selection.Cursor(entry.Position + 1) }

// Mark returns the text by which Follow goes on behind all that was read so far,
// whether it matched or not.
func (f *Follower) Mark() string { return selection.Cursor(f.query.Low) }

// Ended reports whether nothing can come any more: the count is reached, or the
// log has grown beyond toDate.
func (f *Follower) Ended() bool { return f.left == 0 || f.query.Low > f.query.High }

// Next returns the next entries. It waits for them and looks for them, but no longer
// than patience, after which it returns none. At the end, see Ended, it returns io.EOF.
func (f *Follower) Next(ctx context.Context, patience time.Duration) ([]store.Entry, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for !f.Ended() {
		if ready, err := f.wait(ctx, timeout.C); !ready {
			return nil, err
		}
		entries, err := f.read(ctx)
		if len(entries) > 0 || err != nil {
			return entries, err
		}
	}
	return nil, io.EOF
}

// wait waits until there may be something to read, and reports whether there may.
func (f *Follower) wait(ctx context.Context, timeout <-chan time.Time) (ready bool, err error) {
	if f.grown == nil {
		return f.mayGoOn(ctx, timeout)
	}
	select {
	case <-f.grown:
	case <-timeout:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	select {
	case <-time.After(time.Until(f.restedAt)):
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

// read returns the next page of what is stored, which may be empty.
func (f *Follower) read(ctx context.Context) ([]store.Entry, error) {
	end, grown, err := f.store.Watch(ctx, f.user)
	if err != nil {
		return nil, fmt.Errorf("follow log: %w", err)
	}
	query := f.query
	query.High = min(query.High, end)
	query.Limit = min(f.left, pieceSize)
	page, err := f.store.Events(ctx, f.user, query)
	if err != nil {
		return nil, fmt.Errorf("follow log: %w", err)
	}
	f.left -= len(page.Entries)
	if page.More {
		f.query.Low, f.grown = page.Next, nil
		return page.Entries, nil
	}
	f.query.Low, f.grown = max(f.query.Low, query.High+1), grown
	f.restedAt = time.Now().Add(restTime)
	return page.Entries, nil
}
