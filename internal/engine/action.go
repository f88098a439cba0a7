package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// ActionWorker does one kind of bulk action. It is asked again and again until
// the action is finished, also by another process after a crash, so all it knows
// is in the action.
type ActionWorker interface {
	// Begin returns how many things the action's filter matches, and the cursor of the
	// first step. It tells where the action ends, if nothing else does: what matches
	// later is none of its business.
	Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor string, err error)

	// Step changes the next few things. The step's Advance must be called in the
	// commit of that change; advance returns it for the cursor to continue at.
	// An empty cursor means that this was the last step.
	Step(ctx context.Context, action *posthaste.BulkAction, advance func(cursor string) *store.Step) error
}

// StartAction begins a bulk action and returns it: asked has its user, kind, filter,
// overrides and caller.
func (e *Engine) StartAction(ctx context.Context, asked posthaste.BulkAction) (*posthaste.BulkAction, error) {
	worker := e.actionWorkers[asked.Kind]
	if worker == nil {
		return nil, posthaste.Invalidf("there is no bulk action %q", asked.Kind)
	}
	id, err := e.newActionID()
	if err != nil {
		return nil, err
	}
	action := &asked
	action.ID, action.CreatedAt = id, e.now()
	if action.Total, action.Cursor, err = worker.Begin(ctx, action); err != nil {
		return nil, err
	}
	if err := e.options.Store.PutAction(ctx, action); err != nil {
		return nil, fmt.Errorf("store bulk action: %w", err)
	}
	running := *action // what is returned is the caller's
	if e.own.add(action.ID) {
		e.running.Go(func() { e.runAction(&running) })
	}
	return action, nil
}

// newActionID makes an id that sorts by time.
func (e *Engine) newActionID() (string, error) {
	var random [6]byte
	if _, err := io.ReadFull(e.options.Entropy, random[:]); err != nil {
		return "", fmt.Errorf("make action id: %w", err)
	}
	return fmt.Sprintf("act_%013d%s", e.now().UnixMilli(), hex.EncodeToString(random[:])), nil
}

// Action returns a bulk action, or store.ErrNotFound.
func (e *Engine) Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error) {
	return e.options.Store.Action(ctx, user, id)
}

// Actions returns all bulk actions of a user, oldest first.
func (e *Engine) Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error) {
	return e.options.Store.Actions(ctx, user)
}

// CancelAction ends a bulk action that goes on and returns it, or store.ErrNotFound. What
// it has changed stays changed, and is counted in what is returned; it changes nothing
// more, not even what a step at hand has found, whichever engine takes that. An action that
// has ended is returned as it is.
func (e *Engine) CancelAction(ctx context.Context, user, id string) (*posthaste.BulkAction, error) {
	err := e.options.Store.UpdateAction(ctx, user, id, func(a *posthaste.BulkAction) {
		if !a.Finished() {
			a.Cancelled, a.CompletedAt = true, e.now()
		}
	})
	if err != nil {
		return nil, err
	}
	return e.Action(ctx, user, id)
}

// runAction takes steps until the action has ended, another engine does it, or this
// one stops. A step that fails is tried again later. That two take the same step does no
// harm: what one has changed is not there for the other, and a step is counted once.
func (e *Engine) runAction(action *posthaste.BulkAction) {
	const pause = time.Second
	defer e.own.remove(action.ID)
	for !action.Finished() {
		mine, err := e.options.Store.TryLease(e.claiming, "action "+action.ID, takeUpEvery)
		if err == nil && !mine {
			return
		}
		if err == nil {
			err = e.actionStep(action)
		}
		if err == nil {
			continue
		}
		if e.isOver(err) {
			return
		}
		if code := posthaste.ErrorCode(err); code != posthaste.CodeInternal && code != posthaste.CodeUnavailable {
			e.giveUpAction(action, err)
			return
		}
		e.options.Logger.Error("action.step_failed", "action_id", action.ID, "kind", action.Kind, "error", err)
		select {
		case <-time.After(pause):
		case <-e.claiming.Done():
			return
		}
		_ = e.reread(action) // or the step is tried again, and fails
	}
}

// isOver reports whether a step failed because its action has ended or is gone, or because
// this engine ends.
func (e *Engine) isOver(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrClosed) || e.claiming.Err() != nil
}

// giveUpAction ends an action that can never go on: its filter or its overrides
// were accepted once, and this version of the program refuses them.
func (e *Engine) giveUpAction(action *posthaste.BulkAction, cause error) {
	err := e.options.Store.UpdateAction(e.claiming, action.User, action.ID, func(a *posthaste.BulkAction) {
		if a.Finished() {
			return
		}
		a.Count(0, []posthaste.ActionFailure{{ID: a.ID, Error: cause.Error()}})
		a.CompletedAt = e.now()
	})
	if err != nil {
		e.options.Logger.Error("action.give_up_failed", "action_id", action.ID, "error", err)
	}
}

// reread reads an action as it is by now: with the step that was taken, or cancelled.
func (e *Engine) reread(action *posthaste.BulkAction) error {
	after, err := e.options.Store.Action(e.claiming, action.User, action.ID)
	if err != nil {
		return err
	}
	*action = *after
	return nil
}

// actionStep takes one step and reads the action as the step left it.
func (e *Engine) actionStep(action *posthaste.BulkAction) error {
	worker := e.actionWorkers[action.Kind]
	if worker == nil {
		return fmt.Errorf("bulk action of kind %q: %w", action.Kind, store.ErrNotFound)
	}
	from := action.Cursor
	err := worker.Step(e.claiming, action, func(cursor string) *store.Step {
		return &store.Step{ActionID: action.ID, Advance: func(a *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure) {
			if a.Cursor != from {
				return // another engine has done this step before
			}
			a.Count(processed, failures)
			if a.Cursor = cursor; cursor == "" {
				a.CompletedAt = e.now()
			}
		}}
	})
	if err != nil {
		return err
	}
	return e.reread(action)
}
