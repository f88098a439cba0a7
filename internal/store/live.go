package store

import (
	"time"

	"posthaste"
)

// LiveQuery selects messages that have not ended. Filter.States is ignored.
type LiveQuery struct {
	Filter                    EventFilter
	CreatedFrom, CreatedUntil time.Time // inclusive; zero: no bound
	Limit                     int
	Cursor                    string
}

// Matches reports whether a message passes the query.
func (q *LiveQuery) Matches(m *posthaste.Message) bool {
	filter := q.Filter
	filter.States = nil
	return m.Run == nil && filter.Matches(&posthaste.Event{MessageID: m.ID}, m) &&
		(q.CreatedFrom.IsZero() || !m.CreatedAt.Before(q.CreatedFrom)) &&
		(q.CreatedUntil.IsZero() || !m.CreatedAt.After(q.CreatedUntil))
}
