package engine

import (
	"context"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Message returns a message and where it stands, or store.ErrNotFound.
func (e *Engine) Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	return e.options.Store.Message(ctx, user, id)
}

// Cancel asks for messages to be cancelled and returns how many it changed:
// unknown ids and messages that ended, or were cancelled before, do not count.
func (e *Engine) Cancel(ctx context.Context, user string, ids []posthaste.MessageID) (int, error) {
	return e.cancel(ctx, user, ids, nil)
}

func (e *Engine) cancel(ctx context.Context, user string, ids []posthaste.MessageID, step *store.Step) (int, error) {
	cancelled, err := e.options.Store.Cancel(ctx, e.now(), user, ids, step)
	if err != nil {
		return 0, fmt.Errorf("cancel: %w", err)
	}
	return len(cancelled), nil
}

// RunNow makes a message due at once that waits for its delay or its next attempt: see
// store.Expediter.
func (e *Engine) RunNow(ctx context.Context, user string, id posthaste.MessageID) error {
	if err := e.options.Store.RunNow(ctx, e.now(), user, id); err != nil {
		return fmt.Errorf("run now: %w", err)
	}
	return nil
}

// stepSize is how many things a bulk operation changes in one commit.
const stepSize = 200

// CancelMatching cancels the messages that match, at most limit of them if that
// is not 0, and returns how many it changed. What is published while it goes on
// is not touched.
func (e *Engine) CancelMatching(ctx context.Context, user string, query store.LiveQuery, limit int) (int, error) {
	query.CreatedUntil = earlier(query.CreatedUntil, e.now())
	total := 0
	for limit == 0 || total < limit {
		query.Limit = stepSize
		if limit > 0 {
			query.Limit = min(stepSize, limit-total)
		}
		ids, cursor, err := e.options.Store.LiveMessages(ctx, user, query)
		if err != nil {
			return total, fmt.Errorf("find messages: %w", err)
		}
		cancelled, err := e.Cancel(ctx, user, ids)
		if total += cancelled; err != nil || cursor == "" {
			return total, err
		}
		query.Cursor = cursor
	}
	return total, nil
}

// earlier returns the earlier of two times; a first one that is zero is none.
func earlier(bound, now time.Time) time.Time {
	if bound.IsZero() || now.Before(bound) {
		return now
	}
	return bound
}
