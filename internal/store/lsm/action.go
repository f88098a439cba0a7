package lsm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

var actions = documents[posthaste.BulkAction]{
	kind:   kindAction,
	thing:  "bulk action",
	encode: record.AppendAction,
	decode: record.DecodeAction,
}

// advance counts a step of a bulk action. It is called when the step has read all
// it needs and before it writes: an action that is gone or has ended fails it.
func advance(c *commit, user string, step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	if step == nil {
		return nil
	}
	action, err := stepped(c, user, step)
	if err != nil {
		return err
	}
	step.Advance(action, processed, failures)
	actions.save(c, user, action.ID, action)
	return nil
}

// stepped returns the action of a step, to be changed.
func stepped(c *commit, user string, step *store.Step) (*posthaste.BulkAction, error) {
	action, err := loadAction(c, user, step.ActionID)
	if err != nil {
		return nil, err
	}
	return action, step.Check(action)
}

// loadAction returns an action as of the commit, to be changed.
func loadAction(c *commit, user, id string) (*posthaste.BulkAction, error) {
	stored, err := actions.load(c, user, id)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("bulk action %s: %w", id, store.ErrNotFound)
	}
	action := *stored
	return &action, nil
}

// PutAction implements store.Actions.
func (s *Store) PutAction(ctx context.Context, action *posthaste.BulkAction) error {
	return s.writer.do(ctx, func(c *commit) error {
		actions.save(c, action.User, action.ID, action)
		return nil
	})
}

// Action implements store.Actions.
func (s *Store) Action(_ context.Context, user, id string) (*posthaste.BulkAction, error) {
	return read(s, func() (*posthaste.BulkAction, error) { return actions.get(s.db, user, id) })
}

// Actions implements store.Actions.
func (s *Store) Actions(_ context.Context, user string) ([]*posthaste.BulkAction, error) {
	return read(s, func() ([]*posthaste.BulkAction, error) { return actions.list(s.db, user) })
}

// UpdateAction implements store.Actions.
func (s *Store) UpdateAction(ctx context.Context, user, id string, change func(*posthaste.BulkAction)) error {
	return s.writer.do(ctx, func(c *commit) error {
		action, err := loadAction(c, user, id)
		if err != nil {
			return err
		}
		change(action)
		actions.save(c, user, id, action)
		return nil
	})
}

// TryLease implements store.Jobs: a directory is open in one process.
func (s *Store) TryLease(context.Context, string, time.Duration) (bool, error) {
	return read(s, func() (bool, error) { return true, nil })
}

// UnfinishedActions implements store.Actions.
func (s *Store) UnfinishedActions(context.Context) ([]*posthaste.BulkAction, error) {
	return read(s, func() ([]*posthaste.BulkAction, error) {
		return s.findActions(func(action *posthaste.BulkAction) bool { return !action.Finished() })
	})
}

// DeleteActions implements store.Actions.
func (s *Store) DeleteActions(ctx context.Context, completedBefore time.Time) error {
	old, err := read(s, func() ([]*posthaste.BulkAction, error) {
		return s.findActions(func(action *posthaste.BulkAction) bool {
			return action.Finished() && action.CompletedAt.Before(completedBefore)
		})
	})
	if len(old) == 0 {
		return err
	}
	return errors.Join(err, s.writer.do(ctx, func(c *commit) error {
		for _, action := range old {
			actions.remove(c, action.User, action.ID)
		}
		return nil
	}))
}

// findActions returns the actions that are wanted. Those that cannot be read are told by an
// error beside them.
func (s *Store) findActions(wanted func(*posthaste.BulkAction) bool) (found []*posthaste.BulkAction, err error) {
	var damaged []error
	err = scan(s.db, []byte{kindAction}, func(key, value []byte) error {
		userLen := int(key[1])
		user, id := string(key[2:2+userLen]), string(key[2+userLen:])
		action, err := actions.read(user, id, value)
		switch {
		case err != nil:
			damaged = append(damaged, err)
		case wanted(action):
			found = append(found, action)
		}
		return nil
	})
	return found, errors.Join(append(damaged, err)...)
}
