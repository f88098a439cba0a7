package ledger

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// UpdateURLGroup implements store.URLGroups.
func (l *Ledger) UpdateURLGroup(ctx context.Context, now time.Time, user, name string, change func(*posthaste.URLGroup) error) error {
	return l.update(ctx, now, user, urlGroups.scope(user, name).Hint, func(tx *tx) error {
		stored, err := urlGroups.load(tx, name)
		if err != nil {
			return err
		}
		group := posthaste.URLGroup{Name: name}
		if stored != nil {
			group = *stored
		}
		if err := change(&group); err != nil {
			return err
		}
		if len(group.Endpoints) == 0 {
			urlGroups.remove(tx, name, stored)
			return nil
		}
		stamp(now, &group.CreatedAt, &group.UpdatedAt)
		urlGroups.save(tx, name, stored, &group)
		return nil
	})
}

// stamp sets the time of a change, and of the creation if it is unset.
func stamp(now time.Time, created, updated *time.Time) {
	if *updated = now; created.IsZero() {
		*created = now
	}
}

// URLGroup implements store.URLGroups.
func (l *Ledger) URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error) {
	return urlGroups.one(ctx, l, user, name)
}

// URLGroups implements store.URLGroups.
func (l *Ledger) URLGroups(ctx context.Context, user, after string) (store.List[*posthaste.URLGroup], error) {
	return urlGroups.list(ctx, l, user, after)
}

// DeleteURLGroup implements store.URLGroups.
func (l *Ledger) DeleteURLGroup(ctx context.Context, user, name string) error {
	return l.update(ctx, time.Time{}, user, store.Hint{}, func(tx *tx) error {
		urlGroups.remove(tx, name, nil)
		return nil
	})
}

// UpdateSchedule implements store.Schedules.
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

// Schedule implements store.Schedules.
func (l *Ledger) Schedule(ctx context.Context, user, id string) (*posthaste.Schedule, error) {
	return schedules.one(ctx, l, user, id)
}

// Schedules implements store.Schedules.
func (l *Ledger) Schedules(ctx context.Context, user, after string) (store.List[*posthaste.Schedule], error) {
	return schedules.list(ctx, l, user, after)
}

// DeleteSchedule implements store.Schedules.
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

// DueSchedules implements store.Schedules. Each process gets all that are due; the first Tick to
// commit wins.
func (l *Ledger) DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error) {
	return schedules.due(ctx, l, now, limit, except...)
}

// due returns up to limit values that are due, of all users except some, the earliest first, and when
// the next other one is. Unreadable ones are returned as an error together with the others, and do
// not count.
func (r records[T]) due(ctx context.Context, l *Ledger, now time.Time, limit int, except ...string) (due []*T, next time.Time, err error) {
	for count := limit; ; count *= 2 {
		found, next, err := l.Due(ctx, r.kind, now, count, except...)
		if err != nil {
			return nil, time.Time{}, err
		}
		due, damage := r.readable(found)
		if len(due) > limit {
			return due[:limit], now, damage
		}
		if len(due) == limit || len(found) < count {
			return due, next, damage
		}
	}
}

// readable decodes what can be read of some values. The error names the others.
func (r records[T]) readable(found []store.Record) (values []*T, damage error) {
	var damaged []error
	for _, f := range found {
		value, err := r.read(f.User, string(f.Key), f.Value)
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		values = append(values, value)
	}
	return values, errors.Join(damaged...)
}
