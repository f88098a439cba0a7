package eventlog

import (
	"context"
	"fmt"
	"io"

	"posthaste/internal/store"
)

// What is read at once, at most, by who reads any number of entries: what is held in
// memory until a client has taken it. An export begins with a small piece, so that it begins soon;
// larger ones cost less, because the entries of a message are mostly in the same one.
const (
	firstPiece = 250     // entries
	nextPiece  = 1000    // entries
	pieceBytes = 1 << 20 // of either, unless a single entry has more
)

// Export reads all that a query selects, piece by piece. It is for one
// goroutine.
type Export struct {
	store Source
	user  string
	query store.EventQuery // what is left to be read
	left  int              // entries that may still be visited
	piece int              // entries that are read next, at most
	ended bool
}

// Export returns a reader of what Query shows page by page, in the same order, as
// it is now: what is written from now on is left out. The query's limit is that of the whole.
func (l *Log) Export(ctx context.Context, user string, query store.EventQuery) (*Export, error) {
	end, _, err := l.store.Watch(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("export log: %w", err)
	}
	query.High = min(query.High, end)
	query.Bytes = pieceBytes
	return &Export{store: l.store, user: user, query: query, left: query.Limit, piece: firstPiece}, nil
}

// Next visits the next entries, at least one. It returns io.EOF after the last.
func (e *Export) Next(ctx context.Context, visit func(*store.Entry) error) error {
	for !e.ended {
		if ctx.Err() != nil { // nothing else would notice while nothing matches
			return context.Cause(ctx)
		}
		before := e.left
		if err := e.read(ctx, visit); err != nil {
			return fmt.Errorf("export log: %w", err)
		}
		if e.left < before {
			return nil
		}
	}
	return io.EOF
}

// read visits the next page, which may be empty.
func (e *Export) read(ctx context.Context, visit func(*store.Entry) error) error {
	e.query.Limit = min(e.left, e.piece)
	e.piece = nextPiece
	next, more, err := e.store.Events(ctx, e.user, e.query, func(entry *store.Entry) error {
		e.left--
		return visit(entry)
	})
	if e.query.OldestFirst {
		e.query.Low = next
	} else {
		e.query.High = next
	}
	e.ended = !more || e.left == 0
	return err
}
