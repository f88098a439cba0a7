package model

import (
	"context"
	"time"

	"posthaste/internal/store"
)

// Secret implements store.Vault.
func (m *Model) Secret(_ context.Context, key string) (value string, err error) {
	err = m.do(func() error {
		var exists bool
		if value, exists = m.secrets[key]; !exists {
			return store.ErrNotFound
		}
		return nil
	})
	return value, err
}

// PutSecretIfAbsent implements store.Vault.
func (m *Model) PutSecretIfAbsent(_ context.Context, key, value string) (kept string, err error) {
	err = m.do(func() error {
		if _, exists := m.secrets[key]; !exists {
			m.secrets[key] = value
		}
		kept = m.secrets[key]
		return nil
	})
	return kept, err
}

// CompareAndSwapSecret implements store.Vault.
func (m *Model) CompareAndSwapSecret(_ context.Context, key, old, value string) error {
	return m.do(func() error {
		if present, exists := m.secrets[key]; !exists || present != old {
			return store.ErrConflict
		}
		m.secrets[key] = value
		return nil
	})
}

// Ping implements store.Health.
func (m *Model) Ping(context.Context) error {
	return m.do(func() error { return nil })
}

// Stats implements store.Health.
func (m *Model) Stats(_ context.Context, now time.Time) (stats store.Stats, err error) {
	err = m.do(func() error {
		lanes := map[laneOf]bool{}
		for _, l := range m.lives {
			if l.state.Terminal() {
				continue
			}
			lanes[l.lane()] = true
			switch {
			case l.lease != 0:
				stats.InFlight++
			case !l.dueAt.Before(now):
			case m.paused(l):
				stats.OldestPausedDueAt = earliest(stats.OldestPausedDueAt, l.dueAt)
			default:
				stats.OldestDueAt = earliest(stats.OldestDueAt, l.dueAt)
			}
		}
		stats.Lanes = len(lanes)
		return nil
	})
	return stats, err
}

// paused reports whether the queue of a message, or its flow-control key, is paused.
func (m *Model) paused(l *life) bool {
	queue := m.queues[name{l.message.User, l.message.Queue}]
	key := m.flowKeys[l.flowKey()]
	return queue != nil && queue.Paused || key != nil && key.Paused
}

// earliest returns the first of two times, of which the first may be zero for none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// InFlight implements store.Health.
func (m *Model) InFlight(_ context.Context, user string) (n int, err error) {
	err = m.do(func() error {
		for _, l := range m.lives {
			if l.message.User == user && l.lease != 0 {
				n++
			}
		}
		return nil
	})
	return n, err
}
