package store

import (
	"bytes"
	"context"
	"slices"
	"time"

	"posthaste"
)

// Log reads the log of events.
type Log interface {
	// Events calls visit for each matching event with its message, in the query's order. next is
	// where the next call continues: its Low if OldestFirst, else its High. more is false at the
	// end.
	//
	// The entry is valid until visit returns; its message and response may be kept, but not
	// changed. visit must be quick and must not call the store. If it returns an error, Events
	// stops and returns it. After an error, discard what was visited.
	//
	// The work of one call is bounded: it may visit fewer events than requested, or none, and
	// still have more. A reader that continues at next sees each matching event exactly once,
	// because an event is visible only when no lower position can follow. The entries of a call
	// have at most query.Bytes together, unless there is only one.
	Events(ctx context.Context, user string, query EventQuery, visit func(*Entry) error) (next posthaste.Position, more bool, err error)

	// Counts visits what the hours have that begin at from or later, and before until, the hours
	// ascending. That agrees with what Events visits, and goes with the days of the log. visit must
	// be quick, must not call the store, and must not change labels.
	Counts(ctx context.Context, user string, from, until time.Time, visit func(*Count)) error
}

// EventQuery selects events by position and filter.
type EventQuery struct {
	Filter      posthaste.Filter
	Low, High   posthaste.Position // both inclusive
	OldestFirst bool
	Limit       int  // maximum number of events, at least 1
	Bytes       int  // maximum bytes, unless a single entry has more; 0: PageBytes
	Bare        bool // bodies that cost reading may be left out
}

// Since returns a time before which no event matches, because a message has no earlier events. It
// allows for maxSetBack.
func (q *EventQuery) Since() time.Time {
	since := q.Low.Time()
	if ids := q.Filter.MessageIDs; len(ids) > 0 {
		oldest := slices.MinFunc(ids, func(a, b posthaste.MessageID) int { return bytes.Compare(a[:], b[:]) })
		if made := oldest.CreatedAt().Add(-maxSetBack); made.After(since) {
			return made
		}
	}
	return since
}

// maxSetBack is how far the clock may be set back between a message and its events.
const maxSetBack = 24 * time.Hour

// EventPage is the entries of one call of Events, for a caller that needs them all in memory.
type EventPage struct {
	Entries []Entry
	More    bool               // matching events may follow
	Next    posthaste.Position // where they begin: the next Low if OldestFirst, else the next High
}

// ReadEvents returns what Events visits as a page.
func ReadEvents(ctx context.Context, log Log, user string, query EventQuery) (page EventPage, err error) {
	page.Next, page.More, err = log.Events(ctx, user, query, func(entry *Entry) error {
		page.Entries = append(page.Entries, *entry)
		return nil
	})
	return page, err
}

// Visit calls visit for each entry and returns what Events does. The error is that of visit.
func (p *EventPage) Visit(visit func(*Entry) error) (next posthaste.Position, more bool, err error) {
	for _, entry := range p.Entries { // a copy: the page may be read again
		if err := visit(&entry); err != nil {
			return 0, false, err
		}
	}
	return p.Next, p.More, nil
}

// Entry is an event with its message. Make one with NewEntry.
type Entry struct {
	posthaste.Event
	Message     *posthaste.Message // shared: read-only
	MessageSize int                // cached store.MessageSize
}

// NewEntry returns an entry.
func NewEntry(event posthaste.Event, m *posthaste.Message) Entry {
	return Entry{Event: event, Message: m, MessageSize: MessageSize(m)}
}
