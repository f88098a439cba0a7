// Package eventlog owns the log as people read it: a page of events, all of them one after the
// other, later ones, or how many there were.
//
// It relies on the store for finding the events; each read is one call, whose work is bounded.
// Entries are visited, which is subject to the rules of store.Log.
package eventlog

import (
	"context"
	"fmt"
	"sync"

	"posthaste"
	"posthaste/internal/store"
)

// Source is where events are read from, and what signals that there are more.
type Source interface {
	store.Log
	Watch(ctx context.Context, user string) (end posthaste.Position, grown <-chan struct{}, err error)
}

// Options configure a Log. Store is required.
type Options struct {
	Store Source
}

// Log answers queries. It may be used by many goroutines.
type Log struct {
	store Source

	mu      sync.Mutex
	fanouts map[fanoutKey]*fanout // of logs that are followed
}

// New returns a Log that reads from the options' store.
func New(options Options) *Log {
	return &Log{store: options.Store, fanouts: map[fanoutKey]*fanout{}}
}

// Query visits a page of a user's log, see store.Log.
func (l *Log) Query(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error,
) (next posthaste.Position, more bool, err error) {
	if query.Low > query.High {
		return 0, false, nil
	}
	next, more, err = l.store.Events(ctx, user, query, visit)
	if err != nil {
		return 0, false, fmt.Errorf("query log: %w", err)
	}
	return next, more, nil
}
