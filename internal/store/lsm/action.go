package lsm

import (
	"context"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
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
	before := *action
	step.Advance(action, processed, failures)
	actions.save(c, user, action.ID, action)
	moveDue(c, store.ItemAction, user, action.ID, index.Action(&before).DueAt, index.Action(action).DueAt)
	return nil
}

// moveDue moves a record among those that are due.
func moveDue(c *commit, kind store.ItemKind, user, name string, was, is time.Time) {
	t := tableOf(kind)
	if !was.IsZero() {
		c.deleteRecord(t.appendDue(nil, was, user, []byte(name)))
	}
	if !is.IsZero() {
		c.setRecord(t.appendDue(nil, is, user, []byte(name)), nil)
	}
}

// stepped returns the action of a step, to be changed.
func stepped(c *commit, user string, step *store.Step) (*posthaste.BulkAction, error) {
	stored, err := actions.load(c, user, step.ActionID)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("bulk action %s: %w", step.ActionID, store.ErrNotFound)
	}
	action := *stored
	return &action, step.Check(&action)
}

// TryLease implements store.Jobs: a directory is open in one process.
func (s *Store) TryLease(context.Context, string, time.Duration) (bool, error) {
	return read(s, func() (bool, error) { return true, nil })
}
