package eventlog

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"

	"posthaste/internal/selection"
	"posthaste/internal/store"
)

// What is read at once, at most, by who reads any number of entries: what is held in
// memory until a client has taken it.
const (
	pieceSize  = 250     // entries
	pieceBytes = 1 << 20 // of them, unless a single one has more
)

// Export reads all that parameters ask for, piece by piece. It is for one
// goroutine.
type Export struct {
	store Source
	user  string
	query store.EventQuery // what is left to be read
	left  int              // entries that may still be returned
	page  store.EventPage  // that was read last
	ended bool
}

// Export returns a reader of what Query shows page by page, in the same order, as
// it is now: what is written from now on is left out. A count bounds it, without
// a maximum. Errors are those of Query.
func (l *Log) Export(ctx context.Context, user string, params url.Values) (*Export, error) {
	query, err := selection.Events(params, selection.Count{Default: math.MaxInt})
	if err != nil {
		return nil, err
	}
	end, _, err := l.store.Watch(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("export log: %w", err)
	}
	query.High = min(query.High, end)
	query.Bytes, query.Lent = pieceBytes, true
	return &Export{store: l.store, user: user, query: query, left: query.Limit}, nil
}

// Next returns the next entries, at least one, and io.EOF after the last. They and their
// messages are valid until the next call.
func (e *Export) Next(ctx context.Context) ([]store.Entry, error) {
	e.giveBack()
	for !e.ended {
		if ctx.Err() != nil { // nothing else would notice while nothing matches
			return nil, context.Cause(ctx)
		}
		entries, err := e.read(ctx)
		if len(entries) > 0 || err != nil {
			return entries, err
		}
		e.giveBack()
	}
	return nil, io.EOF
}

// giveBack gives back the page that was read last.
func (e *Export) giveBack() {
	page := e.page
	e.page = store.EventPage{}
	page.Return()
}

// read returns the next page, which may be empty.
func (e *Export) read(ctx context.Context) ([]store.Entry, error) {
	e.query.Limit = min(e.left, pieceSize)
	page, err := e.store.Events(ctx, e.user, e.query)
	if err != nil {
		return nil, fmt.Errorf("export log: %w", err)
	}
	e.page = page
	if e.query.OldestFirst {
		e.query.Low = page.Next
	} else {
		e.query.High = page.Next
	}
	e.left -= len(page.Entries)
	e.ended = !page.More || e.left == 0
	return page.Entries, nil
}
