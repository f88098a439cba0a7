package store

import (
	"time"

	"posthaste"
)

// LiveQuery selects messages that have not ended. Filter.States is ignored.
type LiveQuery struct {
	Filter                    posthaste.Filter
	CreatedFrom, CreatedUntil time.Time // inclusive; zero: no bound
	Limit                     int
	Cursor                    string
}

// Matches reports whether a message passes the query.
func (q *LiveQuery) Matches(m *posthaste.Message) bool {
	return m.Run == nil && q.Filter.MatchesMessage(m) &&
		(q.CreatedFrom.IsZero() || !m.CreatedAt.Before(q.CreatedFrom)) &&
		(q.CreatedUntil.IsZero() || !m.CreatedAt.After(q.CreatedUntil))
}
