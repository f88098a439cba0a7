package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"posthaste"
)

// PutAction implements store.Actions.
func (s *Store) PutAction(ctx context.Context, action *posthaste.BulkAction) error {
	return s.call(ctx, time.Time{}, []string{action.User}, func(tx *tx) error {
		actions.put(tx, action.User, action)
		return nil
	})
}

// Action implements store.Actions.
func (s *Store) Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.BulkAction, error) {
		return actions.get(ctx, q, user, id)
	})
}

// Actions implements store.Actions.
func (s *Store) Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]*posthaste.BulkAction, error) {
		return actions.list(ctx, q, user)
	})
}

// UnfinishedActions implements store.Actions.
func (s *Store) UnfinishedActions(ctx context.Context) ([]*posthaste.BulkAction, error) {
	found, err := read(ctx, s, func(ctx context.Context, q querier) ([]dated[posthaste.BulkAction], error) {
		return actions.dueBy(ctx, q, 0, math.MaxInt32)
	})
	var unfinished []*posthaste.BulkAction
	damaged := []error{err}
	for _, f := range found {
		if f.damage != nil {
			damaged = append(damaged, f.damage)
			continue
		}
		unfinished = append(unfinished, f.value)
	}
	return unfinished, errors.Join(damaged...)
}

// UpdateAction implements store.Actions.
func (s *Store) UpdateAction(ctx context.Context, user, id string, change func(*posthaste.BulkAction)) error {
	return s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		action, err := actions.get(tx.ctx, tx, user, id)
		if err != nil {
			return err
		}
		change(action)
		actions.put(tx, user, action)
		return nil
	})
}

// DeleteActions implements store.Actions. A finished action does not change any more,
// so nobody's turn is needed. What was held of old goes, too.
func (s *Store) DeleteActions(ctx context.Context, completedBefore time.Time) error {
	_, err := read(ctx, s, func(ctx context.Context, _ querier) (struct{}, error) {
		_, err := s.pool.Exec(ctx, `DELETE FROM posthaste.documents WHERE kind = $1 AND at > 0 AND at < $2`,
			actions.kind, completedBefore.UnixMilli())
		if err == nil {
			err = s.forgetJobs(ctx)
		}
		return struct{}{}, err
	})
	return err
}
