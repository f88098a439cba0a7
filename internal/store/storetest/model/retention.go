package model

import (
	"context"
	"maps"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// users returns those of whom anything is kept, in order.
func (m *Model) users() []string {
	found := map[string]bool{}
	for _, e := range m.log {
		found[e.life.message.User] = true
	}
	for _, d := range m.deadLetters {
		found[d.Message.User] = true
	}
	for id := range m.executions { // those in the DLQ are among them
		found[id.user] = true
	}
	for key := range m.flowKeys.all {
		found[key.user] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// Trim implements store.Store. It keeps days together, as other backends do.
func (m *Model) Trim(_ context.Context, user string, h store.Horizon) (trimmed store.Trimmed, err error) {
	err = m.do(func() error {
		if !h.DeadLetters.IsZero() {
			trimmed.DeadLetters = m.trimDeadLetters(user, h.DeadLetters)
		}
		if !h.Runs.IsZero() {
			trimmed.Runs = m.trimRuns(user, h.Runs)
		}
		if !h.Log.IsZero() {
			trimmed.Days = m.trimLog(user, h.Log.UTC().Truncate(24*time.Hour))
		}
		if !h.FlowKeys.IsZero() {
			trimmed.FlowKeys = m.trimFlowKeys(user, h.FlowKeys)
		}
		return nil
	})
	return trimmed, err
}

func (m *Model) trimDeadLetters(user string, before time.Time) int {
	kept := len(m.deadLetters) + len(m.runDLQ)
	m.deadLetters = slices.DeleteFunc(m.deadLetters, func(d *posthaste.DeadLetter) bool {
		return d.Message.User == user && d.FailedAt().Before(before)
	})
	m.runDLQ = slices.DeleteFunc(m.runDLQ, func(b *dlqEntry) bool {
		return b.run.user == user && b.FailedAt().Before(before)
	})
	return kept - len(m.deadLetters) - len(m.runDLQ)
}

func (m *Model) trimFlowKeys(user string, since time.Time) (removed int) {
	for id, key := range m.flowKeys.all {
		if id.user == user && key.Idle(since) && m.under(id) == 0 {
			delete(m.flowKeys.all, id)
			removed++
		}
	}
	return removed
}

func (m *Model) trimRuns(user string, before time.Time) (removed int) {
	for id, e := range m.executions {
		inDLQ := slices.ContainsFunc(m.runDLQ, func(b *dlqEntry) bool { return b.run == id })
		if id.user != user || e.run.Active() || !e.run.CompletedAt.Before(before) || inDLQ {
			continue
		}
		delete(m.executions, id)
		m.waiters = slices.DeleteFunc(m.waiters, func(w *waiter) bool { return w.user == user && w.Run.Position == id.at })
		removed++
	}
	return removed
}

func (m *Model) trimLog(user string, before time.Time) int {
	days := map[int64]bool{}
	m.log = slices.DeleteFunc(m.log, func(e entry) bool {
		at := e.event.Position.Time()
		old := e.life.message.User == user && at.Before(before)
		if old {
			days[at.UnixMilli()/(24*time.Hour).Milliseconds()] = true
		}
		return old
	})
	needed := map[*life]bool{}
	for _, e := range m.log {
		needed[e.life] = true
	}
	for _, l := range m.lives {
		if l.message.Queue != "" && m.holdsSlot(l) {
			needed[l] = true
		}
	}
	m.lives = slices.DeleteFunc(m.lives, func(l *life) bool {
		return l.message.User == user && l.state.Terminal() && !needed[l] && !m.begins(l.message)
	})
	return len(days)
}

// begins reports whether a message is the first of a run that goes on.
func (m *Model) begins(first *posthaste.Message) bool {
	if first.Run == nil {
		return false
	}
	x := m.executions[runID{first.User, first.Run.Position}]
	return x != nil && x.run.Active() && x.run.FirstID == first.ID
}
