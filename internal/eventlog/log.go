// Package eventlog owns the log as people query it: which parameters a query
// has, what their values may be, and the cursors by which a reader goes on.
//
// It relies on store.Log for finding the events; a query is translated once and
// answered by one call, whose work is bounded.
package eventlog

import (
	"context"
	"fmt"
	"net/url"

	"posthaste"
	"posthaste/internal/store"
)

// DefaultCount is the number of entries of a page unless told otherwise, and
// the most a page has (contract, 4.1).
const DefaultCount = 1000

// Options configure a Log. Store is required.
type Options struct {
	Store        store.Log
	DefaultCount int // entries of a page when the query names no count; 0: DefaultCount
	MaxCount     int // a larger count is lowered to this one; 0: DefaultCount
}

// Log answers queries. It holds no state and may be used by many goroutines.
type Log struct {
	store        store.Log
	defaultCount int
	maxCount     int
}

// New returns a Log that reads from the options' store.
func New(options Options) *Log {
	l := &Log{store: options.Store, defaultCount: options.DefaultCount, maxCount: options.MaxCount}
	if l.maxCount <= 0 {
		l.maxCount = DefaultCount
	}
	if l.defaultCount <= 0 {
		l.defaultCount = l.maxCount
	}
	return l
}

// Page is a part of the answer to a query. It may hold fewer entries than were
// asked for, also none, and still have a cursor.
type Page struct {
	Entries []store.Entry // shared, not to be changed
	Cursor  string        // asks for what follows; "" at the end
}

// Query returns the page of a user's log that URL parameters ask for. An
// unknown parameter is ignored; a bad value is an Error with CodeInvalid.
func (l *Log) Query(ctx context.Context, user string, params url.Values) (Page, error) {
	query, err := l.parse(parameters(params))
	if err != nil {
		return Page{}, err
	}
	if selectsNothing(query) {
		return Page{}, nil
	}
	found, err := l.store.Events(ctx, user, query)
	if err != nil {
		return Page{}, fmt.Errorf("query log: %w", err)
	}
	page := Page{Entries: found.Entries}
	if found.More {
		page.Cursor = encodeCursor(found.Next)
	}
	return page, nil
}

func selectsNothing(query store.EventQuery) bool { return query.Low > query.High }

// selectNothing gives a query the form that selectsNothing knows.
func selectNothing(query *store.EventQuery) {
	query.Low, query.High = posthaste.MaxPosition, 0
}
