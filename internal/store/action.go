package store

import (
	"fmt"

	"posthaste"
)

// Step makes a change part of a bulk action: the action advances in the same commit, so nothing
// is counted twice or missed. If the action has ended, the change is rejected with ErrConflict, and
// with ErrNotFound if there is no such action; ending an action therefore stops every process that
// works on it.
type Step struct {
	ActionID string
	// Advance receives the action, the number of things changed, and those that could not be.
	Advance func(action *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure)
}

// Check returns ErrConflict if the action has ended.
func (s *Step) Check(action *posthaste.BulkAction) error {
	if action.Finished() {
		return fmt.Errorf("bulk action %s has ended: %w", s.ActionID, ErrConflict)
	}
	return nil
}

// Progress returns the step of a bulk action that a change belongs to, given the ids that the
// change leaves for a later step. nil: the change belongs to no bulk action.
type Progress func(remaining []posthaste.DeadLetterID) *Step

// Step returns the step, nil if p is nil.
func (p Progress) Step(remaining []posthaste.DeadLetterID) *Step {
	if p == nil {
		return nil
	}
	return p(remaining)
}
