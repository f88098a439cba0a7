package postgres

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// UpdateURLGroup implements store.URLGroups.
func (s *Store) UpdateURLGroup(ctx context.Context, now time.Time, user, name string, change func(*posthaste.URLGroup) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		var left int
		err := urlGroups.update(tx, user, name, &posthaste.URLGroup{Name: name}, func(g *posthaste.URLGroup) error {
			if err := change(g); err != nil {
				return err
			}
			stamp(now, &g.CreatedAt, &g.UpdatedAt)
			left = len(g.Endpoints)
			return nil
		})
		if err == nil && left == 0 {
			urlGroups.remove(tx, user, name)
		}
		return err
	})
}

// URLGroup implements store.URLGroups.
func (s *Store) URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.URLGroup, error) {
		return urlGroups.get(ctx, q, user, name)
	})
}

// URLGroups implements store.URLGroups.
func (s *Store) URLGroups(ctx context.Context, user, after string) (store.List[*posthaste.URLGroup], error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.List[*posthaste.URLGroup], error) {
		return urlGroups.page(ctx, q, user, after)
	})
}

// DeleteURLGroup implements store.URLGroups.
func (s *Store) DeleteURLGroup(ctx context.Context, user, name string) error {
	return s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		urlGroups.remove(tx, user, name)
		return nil
	})
}
