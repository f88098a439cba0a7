package ledger

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// UpdateURLGroup implements store.Store.
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

// URLGroup implements store.Store.
func (l *Ledger) URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error) {
	return urlGroups.one(ctx, l, user, name)
}

// URLGroups implements store.Store.
func (l *Ledger) URLGroups(ctx context.Context, user, after string) (store.List[*posthaste.URLGroup], error) {
	return urlGroups.list(ctx, l, user, after)
}

// DeleteURLGroup implements store.Store.
func (l *Ledger) DeleteURLGroup(ctx context.Context, user, name string) error {
	return l.update(ctx, time.Time{}, user, store.Hint{}, func(tx *tx) error {
		urlGroups.remove(tx, name, nil)
		return nil
	})
}
