package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// advance counts a change as part of a bulk action. It returns ErrNotFound for an unknown action,
// ErrConflict for one that has ended. A nil step does nothing.
func (tx *tx) advance(step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	if step == nil {
		return nil
	}
	stored, err := actions.get(tx, tx.user, step.ActionID)
	if err != nil {
		return fmt.Errorf("bulk action %s: %w", step.ActionID, err)
	}
	if err := step.Check(stored); err != nil {
		return err
	}
	changed := *stored
	step.Advance(&changed, processed, failures)
	actions.save(tx, step.ActionID, stored, &changed)
	return nil
}

// PutAction implements store.Store.
func (l *Ledger) PutAction(ctx context.Context, action *posthaste.BulkAction) error {
	return l.update(ctx, time.Time{}, action.User, actions.scope(action.User, action.ID).Hint, func(tx *tx) error {
		stored, err := actions.load(tx, action.ID)
		if err == nil {
			actions.save(tx, action.ID, stored, action)
		}
		return err
	})
}

// Action implements store.Store.
func (l *Ledger) Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error) {
	return actions.one(ctx, l, user, id)
}

// Actions implements store.Store.
func (l *Ledger) Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error) {
	return actions.all(ctx, l, user)
}

// unfinishedSince is when unfinished actions are due, before all others: see index.Action.
var unfinishedSince = time.UnixMilli(0)

// UnfinishedActions implements store.Store.
func (l *Ledger) UnfinishedActions(ctx context.Context) ([]*posthaste.BulkAction, error) {
	unfinished, _, err := actions.due(ctx, l, unfinishedSince, math.MaxInt32)
	return unfinished, err
}

// UpdateAction implements store.Store.
func (l *Ledger) UpdateAction(ctx context.Context, user, id string, change func(*posthaste.BulkAction)) error {
	return l.update(ctx, time.Time{}, user, actions.scope(user, id).Hint, func(tx *tx) error {
		stored, err := actions.get(tx, user, id)
		if err != nil {
			return fmt.Errorf("bulk action %s: %w", id, err)
		}
		changed := *stored
		change(&changed)
		actions.save(tx, id, stored, &changed)
		return nil
	})
}

// deletedAtOnce bounds the actions of a user that one commit of DeleteActions deletes.
const deletedAtOnce = 200

// DeleteActions implements store.Store. Finished actions do not change any more; one that was found
// unfinished may have ended since.
func (l *Ledger) DeleteActions(ctx context.Context, completedBefore time.Time) error {
	due, _, damage := actions.due(ctx, l, completedBefore.Add(-time.Millisecond), math.MaxInt32)
	old := map[string][]*posthaste.BulkAction{}
	for _, action := range due {
		if action.Finished() && action.CompletedAt.Before(completedBefore) {
			old[action.User] = append(old[action.User], action)
		}
	}
	for user, of := range old {
		for some := range slices.Chunk(of, deletedAtOnce) {
			err := l.update(ctx, time.Time{}, user, store.Hint{}, func(tx *tx) error {
				for _, action := range some {
					actions.remove(tx, action.ID, action)
				}
				return nil
			})
			if err != nil {
				return errors.Join(damage, err)
			}
		}
	}
	return damage
}
