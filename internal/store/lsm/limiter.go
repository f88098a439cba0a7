package lsm

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

// admit counts one more attempt if it may start now. If it may not, wakes is
// when it may: the zero time if only an event can change that.
func (m *limiter) admit(now time.Time) (ok bool, wakes time.Time) {
	if m.key.Paused || m.key.Parallelism > 0 && m.inflight >= m.key.Parallelism {
		return false, time.Time{}
	}
	window, wakes, ok := m.window().Admit(m.key.FlowLimit, now)
	if ok {
		m.key.WindowStartedAt, m.key.WindowCount = window.StartedAt, window.Count
		m.inflight++
	}
	return ok, wakes
}

// line returns the list of those who must wait until the key opens, as admit tells it.
func (m *limiter) line(opens time.Time) *list.List {
	if opens.IsZero() {
		return &m.waiting
	}
	return &m.resting
}

func (m *limiter) window() flow.Window {
	return flow.Window{StartedAt: m.key.WindowStartedAt, Count: m.key.WindowCount}
}

// idle reports whether the limiter knows nothing that is not on disk.
func (m *limiter) idle() bool {
	return m.inflight == 0 && m.waiting.Len() == 0 && m.resting.Len() == 0
}
