package engine

import (
	"context"
	"strconv"

	"posthaste"
	"posthaste/internal/selection"
	"posthaste/internal/store"
)

// cancelWorker cancels the messages that match a filter and were there when the
// action began.
type cancelWorker struct{ engine *Engine }

func (w cancelWorker) query(action *posthaste.BulkAction) (store.LiveQuery, error) {
	query, err := selection.Live(action.Filter)
	query.Limit, query.Cursor = stepSize, action.Cursor
	query.CreatedUntil = earlier(query.CreatedUntil, action.CreatedAt)
	return query, err
}

// Count implements ActionWorker.
func (w cancelWorker) Count(ctx context.Context, action *posthaste.BulkAction) (total int, err error) {
	query, err := w.query(action)
	if err != nil {
		return 0, err
	}
	for {
		ids, cursor, err := w.engine.options.Store.LiveMessages(ctx, action.User, query)
		if total += len(ids); err != nil || cursor == "" {
			return total, err
		}
		query.Cursor = cursor
	}
}

// Step implements ActionWorker.
func (w cancelWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	query, err := w.query(action)
	if err != nil {
		return err
	}
	ids, cursor, err := w.engine.options.Store.LiveMessages(ctx, action.User, query)
	if err != nil {
		return err
	}
	_, err = w.engine.cancel(ctx, action.User, ids, advance(cursor))
	return err
}

// deadLetterSteps walks through the dead letters that match a filter and had
// failed when the action began, oldest first, so that what fails again meanwhile
// is not met twice. The cursor is the position to continue at.
type deadLetterSteps struct{ engine *Engine }

func (w deadLetterSteps) query(action *posthaste.BulkAction) (store.DeadLetterQuery, error) {
	query, err := selection.DeadLetters(action.Filter)
	if err != nil {
		return query, err
	}
	query.OldestFirst, query.Limit, query.Bare = true, stepSize, true
	query.High = min(query.High, posthaste.LastPosition(action.CreatedAt))
	if action.Cursor != "" {
		at, err := strconv.ParseUint(action.Cursor, 10, 63)
		if err != nil {
			return query, err
		}
		query.Low = max(query.Low, posthaste.Position(at))
	}
	return query, nil
}

// Count implements ActionWorker.
func (w deadLetterSteps) Count(ctx context.Context, action *posthaste.BulkAction) (total int, err error) {
	query, err := w.query(action)
	for err == nil {
		var page store.DeadLetterPage
		page, err = w.engine.DeadLetters(ctx, action.User, query)
		if total += len(page.IDs); !page.More {
			break
		}
		query.Low = page.Next
	}
	return total, err
}

// next returns the ids of the next step and the cursor for the one after.
func (w deadLetterSteps) next(ctx context.Context, action *posthaste.BulkAction) (ids []posthaste.DeadLetterID, cursor string, err error) {
	query, err := w.query(action)
	if err != nil {
		return nil, "", err
	}
	page, err := w.engine.DeadLetters(ctx, action.User, query)
	if err != nil {
		return nil, "", err
	}
	if page.More {
		cursor = strconv.FormatUint(uint64(page.Next), 10)
	}
	return page.IDs, cursor, nil
}

// deleteWorker deletes the dead letters that match a filter.
type deleteWorker struct{ engine *Engine }

// Count implements ActionWorker.
func (w deleteWorker) Count(ctx context.Context, action *posthaste.BulkAction) (int, error) {
	return deadLetterSteps(w).Count(ctx, action)
}

// Step implements ActionWorker.
func (w deleteWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	ids, cursor, err := deadLetterSteps(w).next(ctx, action)
	if err != nil {
		return err
	}
	_, err = w.engine.options.Store.DeleteDeadLetters(ctx, action.User, ids, advance(cursor))
	return err
}

// retryWorker retries the dead letters that match a filter.
type retryWorker struct{ engine *Engine }

// Count implements ActionWorker.
func (w retryWorker) Count(ctx context.Context, action *posthaste.BulkAction) (int, error) {
	return deadLetterSteps(w).Count(ctx, action)
}

// Step implements ActionWorker.
func (w retryWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	ids, cursor, err := deadLetterSteps(w).next(ctx, action)
	if err != nil {
		return err
	}
	overrides, err := w.engine.options.DecodeOverrides(action.Header)
	if err != nil {
		return err
	}
	_, err = w.engine.retry(ctx, action.User, ids, overrides, advance(cursor))
	return err
}
