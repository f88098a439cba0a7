package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// ActionWorker handles one kind of bulk action. All of its state is in the action, because
// another process continues it after a crash.
type ActionWorker interface {
	// Begin returns the number of matching things and the first cursor. It fixes where the action
	// ends, so that things which match later are not changed.
	Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor posthaste.ActionCursor, err error)

	// Step changes the next few things. It must commit advance(cursor) with the change, where
	// cursor is that of the next step, zero after the last one.
	Step(ctx context.Context, action *posthaste.BulkAction, advance Advance) error
}

// Advance returns the step of an action that moves it to a cursor.
type Advance func(posthaste.ActionCursor) *store.Step

// StartAction stores and starts a bulk action. The caller sets user, kind, filter, overrides
// and caller IP.
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
	running := *action // the caller owns what is returned
	if e.own.add(action.ID) {
		e.running.Go(func() { e.runAction(&running) })
	}
	return action, nil
}

// newActionID returns an id that sorts by time.
func (e *Engine) newActionID() (string, error) {
	var random [6]byte
	if _, err := io.ReadFull(e.options.Entropy, random[:]); err != nil {
		return "", fmt.Errorf("make action id: %w", err)
	}
	return fmt.Sprintf("act_%013d%s", e.now().UnixMilli(), hex.EncodeToString(random[:])), nil
}

// CancelAction ends a running bulk action and returns it, or store.ErrNotFound. Changes already
// made remain and are counted; no engine makes further ones. An action that has ended is returned
// as it is.
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

// runAction takes steps until the action has ended, another engine owns it or this one stops.
// Failed steps are retried. Two engines taking the same step do no harm: changed things no longer
// match, and the step counts once.
func (e *Engine) runAction(action *posthaste.BulkAction) {
	const pause = time.Second
	defer e.own.remove(action.ID)
	for !action.Finished() {
		mine, err := e.options.Store.TryLease(e.claiming, "action "+action.ID, adoptInterval)
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
			e.failAction(action, err)
			return
		}
		e.options.Logger.Log(context.Background(), store.LogLevel(err), "action.step_failed", "action_id", action.ID, "kind", action.Kind, "error", err)
		select {
		case <-time.After(pause):
		case <-e.claiming.Done():
			return
		}
		_ = e.reread(action)
	}
}

// isOver reports whether a step failed because its action has ended or does not exist, or this
// engine stops.
func (e *Engine) isOver(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrClosed) || e.claiming.Err() != nil
}

// failAction ends an action whose step was rejected.
func (e *Engine) failAction(action *posthaste.BulkAction, cause error) {
	err := e.options.Store.UpdateAction(e.claiming, action.User, action.ID, func(a *posthaste.BulkAction) {
		if a.Finished() {
			return
		}
		a.Count(0, []posthaste.ActionFailure{{ID: a.ID, Error: cause.Error()}})
		a.CompletedAt = e.now()
	})
	if err != nil {
		e.options.Logger.Log(context.Background(), store.LogLevel(err), "action.give_up_failed", "action_id", action.ID, "error", err)
	}
}

// reread loads the action's stored state.
func (e *Engine) reread(action *posthaste.BulkAction) error {
	after, err := e.options.Store.Action(e.claiming, action.User, action.ID)
	if err != nil {
		return err
	}
	*action = *after
	return nil
}

// actionStep takes one step and reloads the action.
func (e *Engine) actionStep(action *posthaste.BulkAction) error {
	worker := e.actionWorkers[action.Kind]
	if worker == nil {
		return fmt.Errorf("bulk action of kind %q: %w", action.Kind, store.ErrNotFound)
	}
	from := action.Cursor
	err := worker.Step(e.claiming, action, func(cursor posthaste.ActionCursor) *store.Step {
		return &store.Step{ActionID: action.ID, Advance: func(a *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure) {
			if a.Cursor != from {
				return // another engine has taken this step
			}
			a.Count(processed, failures)
			if a.Cursor = cursor; cursor == (posthaste.ActionCursor{}) {
				a.CompletedAt = e.now()
			}
		}}
	})
	if err != nil {
		return err
	}
	return e.reread(action)
}

// adoptInterval is how often an engine looks for orphaned bulk actions, and the lease of an
// action's owner.
const adoptInterval = 10 * time.Second

// adoptOrphanedActions continues unfinished bulk actions whose process died, and removes old
// ended ones.
func (e *Engine) adoptOrphanedActions() {
	ticker := time.NewTicker(adoptInterval)
	defer ticker.Stop()
	for {
		e.adoptOnce()
		select {
		case <-ticker.C:
		case <-e.claiming.Done():
			return
		}
	}
}

// adoptOnce starts all unfinished actions; runAction stops at those that another engine owns.
func (e *Engine) adoptOnce() {
	if err := e.options.Store.DeleteActions(e.claiming, e.now().Add(-posthaste.ActionRetention)); err != nil {
		e.options.Logger.Log(context.Background(), store.LogLevel(err), "action.cleanup_failed", "error", err)
	}
	unfinished, err := e.options.Store.UnfinishedActions(e.claiming)
	if err != nil {
		e.options.Logger.Log(context.Background(), store.LogLevel(err), "action.resume_failed", "error", err)
	}
	for _, action := range unfinished {
		if e.own.add(action.ID) {
			e.running.Go(func() { e.runAction(action) })
		}
	}
}

// ownActions are the bulk actions that this engine works on.
type ownActions struct {
	mu  sync.Mutex
	ids map[string]bool
}

// add reports whether the action is new.
func (o *ownActions) add(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id] {
		return false
	}
	if o.ids == nil {
		o.ids = map[string]bool{}
	}
	o.ids[id] = true
	return true
}

func (o *ownActions) remove(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ids, id)
}
