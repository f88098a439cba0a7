package engine

import (
	"context"
	"fmt"

	"posthaste"
	"posthaste/internal/store"
)

// Cancel cancels messages and returns the number changed, see store.Store.
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

// RunNow makes a message due now, see store.Store.
func (e *Engine) RunNow(ctx context.Context, user string, id posthaste.MessageID) error {
	if err := e.options.Store.RunNow(ctx, e.now(), user, id); err != nil {
		return fmt.Errorf("run now: %w", err)
	}
	return nil
}

// stepSize is how many things a bulk operation changes in one commit.
const stepSize = 200

// CancelMatching cancels up to limit matching messages (0 = all) and returns the number changed.
// Messages published during the call are not cancelled.
func (e *Engine) CancelMatching(ctx context.Context, user string, query store.LiveQuery, limit int) (int, error) {
	query.CreatedUntil = store.Earlier(query.CreatedUntil, e.now())
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
