package ledger

import (
	"fmt"

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
