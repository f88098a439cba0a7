package ledger

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// UpdateSchedule implements store.Store.
func (l *Ledger) UpdateSchedule(ctx context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error {
	return l.update(ctx, now, user, schedules.scope(user, id).Hint, func(tx *tx) error {
		return schedules.update(tx, id, posthaste.Schedule{ID: id, User: user}, func(s *posthaste.Schedule) error {
			if err := change(s); err != nil {
				return err
			}
			if s.CreatedAt.IsZero() {
				s.CreatedAt = now
			}
			return nil
		})
	})
}

// Schedule implements store.Store.
func (l *Ledger) Schedule(ctx context.Context, user, id string) (*posthaste.Schedule, error) {
	return schedules.one(ctx, l, user, id)
}

// Schedules implements store.Store.
func (l *Ledger) Schedules(ctx context.Context, user, after string) (store.List[*posthaste.Schedule], error) {
	return schedules.list(ctx, l, user, after)
}

// DeleteSchedule implements store.Store.
func (l *Ledger) DeleteSchedule(ctx context.Context, user, id string) error {
	return l.update(ctx, time.Time{}, user, schedules.scope(user, id).Hint, func(tx *tx) error {
		stored, err := schedules.load(tx, id)
		if err != nil || stored == nil {
			return err
		}
		schedules.remove(tx, id, stored)
		return nil
	})
}

// DueSchedules implements store.Store. Each process gets all that are due; the first Tick to
// commit wins.
func (l *Ledger) DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error) {
	return schedules.due(ctx, l, now, limit, except...)
}

// Tick implements store.Store.
func (l *Ledger) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	hint := acceptHint(messages)
	hint.Records = append(hint.Records, schedules.key(after.ID))
	return l.update(ctx, now, after.User, hint.Hint, func(tx *tx) error {
		if len(messages) > 0 {
			if err := tx.CheckSpace(); err != nil {
				return err
			}
		}
		stored, err := schedules.load(tx, after.ID)
		if err != nil {
			return err
		}
		if schedules.foundBy(stored).DueAt.IsZero() || !stored.Equal(before) {
			return store.ErrConflict
		}
		for _, m := range messages {
			if err := tx.accept(m); err != nil {
				return err
			}
		}
		schedules.save(tx, after.ID, stored, after)
		return nil
	})
}
