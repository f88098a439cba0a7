package store

import (
	"context"
	"fmt"
	"time"

	"posthaste"
)

// Actions keeps bulk actions.
type Actions interface {
	// PutAction stores a new action.
	PutAction(ctx context.Context, action *posthaste.BulkAction) error

	// Action returns an action, or ErrNotFound.
	Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error)

	// Actions returns all actions of a user by id.
	Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error)

	// UnfinishedActions returns the actions of all users that go on. Those that cannot be
	// read are told by an error beside the others.
	UnfinishedActions(ctx context.Context) ([]*posthaste.BulkAction, error)

	// UpdateAction changes an action by the function, or returns ErrNotFound.
	UpdateAction(ctx context.Context, user, id string, change func(*posthaste.BulkAction)) error

	// DeleteActions removes the actions of all users that were completed before
	// the given time.
	DeleteActions(ctx context.Context, completedBefore time.Time) error
}

// Step says that a change is part of a bulk action. The action is advanced in the
// commit of the change, so that it never counts anything twice or not at all. When the
// action has ended the change is refused with ErrConflict, and nothing is changed: who ends
// an action ends what other processes do of it, too.
type Step struct {
	ActionID string
	// Advance gets the action, how many things the change changed, and those it
	// could not change.
	Advance func(action *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure)
}

// Check returns ErrConflict unless the action goes on.
func (s *Step) Check(action *posthaste.BulkAction) error {
	if action.Finished() {
		return fmt.Errorf("bulk action %s has ended: %w", s.ActionID, ErrConflict)
	}
	return nil
}
