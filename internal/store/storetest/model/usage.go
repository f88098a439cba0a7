package model

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// eventBytes is the estimate of an event's size.
const eventBytes = 100

// Usage implements store.Retention.
func (m *Model) Usage(_ context.Context, user string) (store.Usage, error) {
	return m.usage(func(other string) bool { return other == user })
}

// TotalUsage implements store.Retention.
func (m *Model) TotalUsage(context.Context) (store.Usage, error) {
	return m.usage(func(string) bool { return true })
}

// usage counts what belongs to those that are meant. Of sizes it only knows those of
// bodies.
func (m *Model) usage(meant func(user string) bool) (u store.Usage, err error) {
	err = m.do(func() error {
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
		return nil
	})
	return u, err
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
