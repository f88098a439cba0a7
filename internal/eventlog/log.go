// Package eventlog owns the log as people read it: a page of events for the
// parameters of a request and the cursor by which a reader goes on, all of them
// one after the other, or those to come.
//
// It relies on package wire for what parameters mean, and on the store for
// finding the events; each read is one call, whose work is bounded. Entries are visited,
// which is subject to the rules of store.Log.
package eventlog

import (
	"context"
	"fmt"
	"net/url"

	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// DefaultCount is the number of entries of a page unless told otherwise, and
// the most a page has (contract, 4.1).
const DefaultCount = 1000

// Source is where events are read from, and what tells that there are more.
type Source interface {
	store.Log
	store.Watcher
}

// Options configure a Log. Store is required.
type Options struct {
	Store        Source
	DefaultCount int // entries of a page when the query names no count; 0: DefaultCount
	MaxCount     int // a larger count is lowered to this one; 0: DefaultCount
}

// Log answers queries. It holds no state and may be used by many goroutines.
type Log struct {
	store Source
	count wire.Count
}

// New returns a Log that reads from the options' store.
func New(options Options) *Log {
	most := options.MaxCount
	if most <= 0 {
		most = DefaultCount
	}
	usual := options.DefaultCount
	if usual <= 0 {
		usual = most
	}
	return &Log{store: options.Store, count: wire.Count{Default: min(usual, most), Most: most}}
}

// Query visits the page of a user's log that URL parameters ask for, and returns the cursor
// that asks for what follows, "" at the end. It may visit fewer entries than were asked for,
// also none, and still return a cursor. An unknown parameter and a bad value are Errors with
// CodeInvalid.
func (l *Log) Query(ctx context.Context, user string, params url.Values, visit func(*store.Entry) error) (cursor string, err error) {
	query, err := wire.Events(params, l.count)
	if err != nil || query.Low > query.High {
		return "", err
	}
	next, more, err := l.store.Events(ctx, user, query, visit)
	if err != nil {
		return "", fmt.Errorf("query log: %w", err)
	}
	if !more {
		return "", nil
	}
	return wire.Cursor(next), nil
}
