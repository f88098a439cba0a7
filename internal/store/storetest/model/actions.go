package model

import (
	"context"
	"maps"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// PutAction implements store.Actions.
func (m *Model) PutAction(_ context.Context, action *posthaste.BulkAction) error {
	return m.do(func() error {
		m.actions[name{action.User, action.ID}] = copyAction(action)
		return nil
	})
}

func copyAction(a *posthaste.BulkAction) *posthaste.BulkAction {
	c := *a
	c.Failures = slices.Clone(a.Failures)
	return &c
}

// Action implements store.Actions.
func (m *Model) Action(_ context.Context, user, id string) (action *posthaste.BulkAction, err error) {
	err = m.do(func() error {
		stored := m.actions[name{user, id}]
		if stored == nil {
			return store.ErrNotFound
		}
		action = copyAction(stored)
		return nil
	})
	return action, err
}

// Actions implements store.Actions.
func (m *Model) Actions(_ context.Context, user string) (all []*posthaste.BulkAction, err error) {
	err = m.do(func() error {
		for _, a := range list(m.actions, user) {
			all = append(all, copyAction(a))
		}
		return nil
	})
	return all, err
}

// UnfinishedActions implements store.Actions.
func (m *Model) UnfinishedActions(context.Context) (all []*posthaste.BulkAction, err error) {
	err = m.do(func() error {
		for _, a := range m.actions {
			if !a.Finished() {
				all = append(all, copyAction(a))
			}
		}
		return nil
	})
	return all, err
}

// UpdateAction implements store.Actions.
func (m *Model) UpdateAction(_ context.Context, user, id string, change func(*posthaste.BulkAction)) error {
	return m.do(func() error {
		action := m.actions[name{user, id}]
		if action == nil {
			return store.ErrNotFound
		}
		change(action)
		return nil
	})
}

// DeleteActions implements store.Actions.
func (m *Model) DeleteActions(_ context.Context, completedBefore time.Time) error {
	return m.do(func() error {
		maps.DeleteFunc(m.actions, func(_ name, a *posthaste.BulkAction) bool {
			return a.Finished() && a.CompletedAt.Before(completedBefore)
		})
		return nil
	})
}

// checkStep refuses a step of an action that is not there or has ended.
func (m *Model) checkStep(user string, step *store.Step) error {
	if step == nil {
		return nil
	}
	action := m.actions[name{user, step.ActionID}]
	if action == nil {
		return store.ErrNotFound
	}
	return step.Check(action)
}

// advance counts a change as part of a user's bulk action, if it is of one.
func (m *Model) advance(user string, step *store.Step, processed int, failures []posthaste.ActionFailure) {
	if step != nil {
		step.Advance(m.actions[name{user, step.ActionID}], processed, failures)
	}
}

// TryLease implements store.Jobs: nobody else has the model.
func (m *Model) TryLease(context.Context, string, time.Duration) (held bool, err error) {
	err = m.do(func() error {
		held = true
		return nil
	})
	return held, err
}
