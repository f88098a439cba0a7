package model

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// eventBytes is the estimate of an event's size.
const eventBytes = 100

// Usage implements store.Store. Of sizes it only knows those of bodies.
func (m *Model) Usage(_ context.Context, user string) (store.Usage, error) {
	meant := func(other string) bool { return user == "" || other == user }
	return ask(m, func() (u store.Usage, err error) {
		for _, l := range m.lives {
			if l.lease != 0 && meant(l.message.User) {
				u.InFlight++
			}
		}
		for _, e := range m.log {
			if meant(e.life.message.User) {
				logged(&u, e)
			}
		}
		for _, d := range m.deadLetters {
			if meant(d.Message.User) {
				add(&u.DeadLetters, d.FailedAt(), len(d.Message.Body))
			}
		}
		for _, b := range m.runDLQ {
			if meant(b.run.user) {
				add(&u.FailedRuns, b.FailedAt(), len(b.Message.Body))
			}
		}
		for id, x := range m.executions {
			if meant(id.user) {
				add(&u.Runs, id.at.Time(), x.size())
			}
		}
		if user == "" {
			u.Users = m.users()
		}
		return u, nil
	})
}

// logged counts an event, which is not older than those counted before.
func logged(u *store.Usage, e entry) {
	size := eventBytes
	if e.event.State == posthaste.StateCreated {
		size += len(e.life.message.Body)
	}
	at := e.event.Position.Time()
	start := at.UTC().Truncate(24 * time.Hour)
	if last := len(u.Days) - 1; last < 0 || !u.Days[last].Start.Equal(start) {
		u.Days = append(u.Days, store.DayUsage{Start: start})
	}
	add(&u.Days[len(u.Days)-1].KindUsage, at, size)
	add(&u.Log, at, size)
}

func add(k *store.KindUsage, at time.Time, size int) {
	k.Entries++
	k.Bytes += int64(size)
	if k.Oldest.IsZero() || at.Before(k.Oldest) {
		k.Oldest = at
	}
}

// size adds up the bodies of a run's list.
func (x *execution) size() (n int) {
	for _, e := range x.entries {
		n += len(e.Body)
	}
	return n
}

// Ping implements store.Store.
func (m *Model) Ping(context.Context) error {
	return m.do(func() error { return nil })
}

// Stats implements store.Store.
func (m *Model) Stats(_ context.Context, now time.Time) (store.Stats, error) {
	return ask(m, func() (stats store.Stats, err error) {
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
		return stats, nil
	})
}

// paused reports whether the queue of a message, or its flow-control key, is paused.
func (m *Model) paused(l *life) bool {
	queue := m.queues.all[name{l.message.User, l.message.Queue}]
	key := m.flowKeys.all[l.flowKey()]
	return queue != nil && queue.Paused || key != nil && key.Paused
}

// earliest returns the first of two times, of which the first may be zero for none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// TryLease implements store.Store: nobody else has the model.
func (m *Model) TryLease(context.Context, string, time.Duration) (bool, error) {
	return ask(m, func() (bool, error) { return true, nil })
}
