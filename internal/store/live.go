package store

import (
	"context"
	"time"

	"posthaste"
)

// LiveMessages finds messages that have not ended.
type LiveMessages interface {
	// LiveMessages returns up to query.Limit ids of matching messages that have not ended and
	// belong to no run. The work of one call is bounded: continue with the cursor until it is
	// empty.
	LiveMessages(ctx context.Context, user string, query LiveQuery) (ids []posthaste.MessageID, cursor string, err error)
}

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
