package model

import (
	"cmp"
	"context"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// UpdateSchedule implements store.Schedules.
func (m *Model) UpdateSchedule(_ context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error {
	return m.change(func() error {
		value := &posthaste.Schedule{ID: id, User: user}
		if old := m.schedules[name{user, id}]; old != nil {
			value = copySchedule(old)
		}
		if err := change(value); err != nil {
			return err
		}
		if value.CreatedAt.IsZero() {
			value.CreatedAt = now
		}
		m.schedules[name{user, id}] = value
		return nil
	})
}

func copySchedule(s *posthaste.Schedule) *posthaste.Schedule {
	c := *s
	c.LastMessages = slices.Clone(s.LastMessages)
	return &c
}

// Schedule implements store.Schedules.
func (m *Model) Schedule(_ context.Context, user, id string) (s *posthaste.Schedule, err error) {
	err = m.do(func() error {
		stored := m.schedules[name{user, id}]
		if stored == nil {
			return store.ErrNotFound
		}
		s = copySchedule(stored)
		return nil
	})
	return s, err
}

// Schedules implements store.Schedules.
func (m *Model) Schedules(_ context.Context, user, after string) (part store.List[*posthaste.Schedule], err error) {
	err = m.do(func() error {
		var all []*posthaste.Schedule
		for _, s := range list(m.schedules, user) {
			all = append(all, copySchedule(s))
		}
		part = partOf(all, after, func(s *posthaste.Schedule) string { return s.ID }, store.ScheduleSize)
		return nil
	})
	return part, err
}

// DeleteSchedule implements store.Schedules.
func (m *Model) DeleteSchedule(_ context.Context, user, id string) error {
	return m.do(func() error {
		delete(m.schedules, name{user, id})
		return nil
	})
}

// DueSchedules implements store.Schedules.
func (m *Model) DueSchedules(_ context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error) {
	err = m.do(func() error {
		for _, s := range m.schedules {
			if !s.NextAt.IsZero() && !s.Paused && !slices.Contains(except, s.User) {
				due = append(due, copySchedule(s))
			}
		}
		slices.SortFunc(due, func(a, b *posthaste.Schedule) int {
			return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.User, b.User), cmp.Compare(a.ID, b.ID))
		})
		for i, s := range due {
			if i == limit || s.NextAt.After(now) {
				due, next = due[:i], s.NextAt
				break
			}
		}
		return nil
	})
	return due, next, err
}

// Tick implements store.Schedules.
func (m *Model) Tick(_ context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	return m.change(func() error {
		id := name{after.User, after.ID}
		stored := m.schedules[id]
		if stored == nil || stored.Paused || stored.NextAt.IsZero() || !stored.Equal(before) {
			return store.ErrConflict
		}
		m.accept(now, messages)
		m.schedules[id] = copySchedule(after)
		return nil
	})
}
