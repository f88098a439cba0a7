package lanes

import (
	"container/list"
	"time"

	"posthaste"
	"posthaste/internal/flow"
)

// flowID is a flow-control key of a user.
type flowID struct {
	user, key string
}

// limiter keeps a flow-control key's limits. It is shared by all lanes whose
// messages name the key. Guarded by scheduler.mu.
type limiter struct {
	id       flowID
	key      posthaste.FlowKey
	inflight int
	waiting  list.List // of *lane: their next message must wait for others of this key
	resting  list.List // of *lane: for the end of its window
}

// admit counts one more attempt if flow.Admit lets it start now.
func (m *limiter) admit(now time.Time) (ok bool, opens time.Time) {
	window, opens, ok := flow.Admit(&m.key, m.inflight, now)
	if ok {
		m.key.WindowStartedAt, m.key.WindowCount = window.StartedAt, window.Count
		m.inflight++
	}
	return ok, opens
}

// refused returns the list for lanes that admit refused until the key opens.
func (m *limiter) refused(opens time.Time) *list.List {
	if opens.IsZero() {
		return &m.waiting
	}
	return &m.resting
}

// idle reports whether the limiter knows nothing that is not on disk.
func (m *limiter) idle() bool {
	return m.inflight == 0 && m.waiting.Len() == 0 && m.resting.Len() == 0
}
