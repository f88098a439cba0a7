package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// UpdateSchedule implements store.Schedules.
func (s *Store) UpdateSchedule(ctx context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		return schedules.update(tx, user, id, &posthaste.Schedule{ID: id, User: user}, func(sc *posthaste.Schedule) error {
			if err := change(sc); err != nil {
				return err
			}
			if sc.CreatedAt.IsZero() {
				sc.CreatedAt = now
			}
			return nil
		})
	})
}

// Schedule implements store.Schedules.
func (s *Store) Schedule(ctx context.Context, user, id string) (*posthaste.Schedule, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.Schedule, error) {
		return schedules.get(ctx, q, user, id)
	})
}

// Schedules implements store.Schedules.
func (s *Store) Schedules(ctx context.Context, user, after string) (store.List[*posthaste.Schedule], error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.List[*posthaste.Schedule], error) {
		return schedules.page(ctx, q, user, after)
	})
}

// DeleteSchedule implements store.Schedules.
func (s *Store) DeleteSchedule(ctx context.Context, user, id string) error {
	return s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		schedules.remove(tx, user, id)
		return nil
	})
}

// DueSchedules implements store.Schedules. Each node is told of all that are due; the
// first whose Tick commits has fired it.
func (s *Store) DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error) {
	for count := limit + 1; ; count *= 2 { // those that cannot be read leave room for others
		first, err := read(ctx, s, func(ctx context.Context, q querier) ([]dated[posthaste.Schedule], error) {
			return schedules.dueBy(ctx, q, math.MaxInt64, count, except...)
		})
		if err != nil {
			return nil, time.Time{}, err
		}
		due, next, err = dueOf(first, now, limit)
		if !next.IsZero() || len(first) < count {
			return due, next, err
		}
	}
}

// dueOf returns which schedules are due of those that wait, the earliest of which come
// first, and when the next other one is: see store.Schedules.
func dueOf(waiting []dated[posthaste.Schedule], now time.Time, limit int) (due []*posthaste.Schedule, next time.Time, err error) {
	var damaged []error
	for _, w := range waiting {
		switch {
		case w.at > now.UnixMilli() || len(due) == limit:
			return due, fromMilli(&w.at), errors.Join(damaged...)
		case w.damage != nil:
			damaged = append(damaged, w.damage)
		default:
			due = append(due, w.value)
		}
	}
	return due, time.Time{}, errors.Join(damaged...)
}

// Tick implements store.Schedules.
func (s *Store) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	return s.call(ctx, now, []string{after.User}, func(tx *tx) error {
		stored, err := schedules.get(tx.ctx, tx, after.User, after.ID)
		if errors.Is(err, store.ErrNotFound) || err == nil && (schedules.at(stored) == nil || !stored.Equal(before)) {
			return store.ErrConflict
		}
		if err != nil {
			return err
		}
		schedules.put(tx, after.User, after)
		return tx.accept(messages)
	})
}
