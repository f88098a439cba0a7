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
	e.own.add(action.ID)
	e.running.Go(func() { e.runAction(&running) })
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

// runAction takes steps until the action is finished, another engine does it, or this
// one stops. A step that fails is tried again later. That two take the same step does no
// harm: what one has changed is not there for the other, and a step is counted once.
func (e *Engine) runAction(action *posthaste.BulkAction) {
	const pause = time.Second
	defer e.own.remove(action.ID)
	for !action.Finished() {
		mine, err := e.options.Store.HoldJob(e.claiming, "action "+action.ID, takeUpEvery)
		if err == nil && !mine {
			return
		}
		if err == nil {
			err = e.actionStep(action)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrClosed) || e.claiming.Err() != nil {
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
	}
}

// giveUpAction ends an action that can never go on: its filter or its overrides
// were accepted once, and this version of the program refuses them.
func (e *Engine) giveUpAction(action *posthaste.BulkAction, cause error) {
	err := e.options.Store.UpdateAction(e.claiming, action.User, action.ID, func(a *posthaste.BulkAction) {
		a.Count(0, []posthaste.ActionFailure{{ID: a.ID, Error: cause.Error()}})
		a.CompletedAt = e.now()
	})
	if err != nil {
		e.options.Logger.Error("action.give_up_failed", "action_id", action.ID, "error", err)
	}
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
			if a.Finished() || a.Cursor != from {
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
	after, err := e.options.Store.Action(e.claiming, action.User, action.ID)
	if err != nil {
		return err
	}
	*action = *after
	return nil
}
