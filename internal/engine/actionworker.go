package engine

import (
	"context"

	"posthaste"
	"posthaste/internal/store"
)

// cancelWorker cancels matching messages that existed when the action began.
type cancelWorker struct{ engine *Engine }

func (w cancelWorker) query(action *posthaste.BulkAction) store.LiveQuery {
	query := store.LiveMatching(&action.Filter)
	query.Limit, query.Cursor = stepSize, action.Cursor.Live
	query.CreatedUntil = earlier(query.CreatedUntil, action.CreatedAt)
	return query
}

// Begin implements ActionWorker.
func (w cancelWorker) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, first posthaste.ActionCursor, err error) {
	query := w.query(action)
	for {
		ids, cursor, err := w.engine.options.Store.LiveMessages(ctx, action.User, query)
		if total += len(ids); err != nil || cursor == "" {
			return total, first, err
		}
		query.Cursor = cursor
	}
}

// Step implements ActionWorker.
func (w cancelWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance Advance) error {
	ids, cursor, err := w.engine.options.Store.LiveMessages(ctx, action.User, w.query(action))
	if err != nil {
		return err
	}
	_, err = w.engine.cancel(ctx, action.User, ids, advance(posthaste.ActionCursor{Live: cursor}))
	return err
}

// deadLetterSteps pages through matching dead letters that existed when the action began, oldest
// first.
type deadLetterSteps struct{ engine *Engine }

func (w deadLetterSteps) query(action *posthaste.BulkAction, left posthaste.ActionCursor) store.DeadLetterQuery {
	query := store.DeadLettersMatching(&action.Filter)
	query.Low, query.High = left.Low, left.High
	query.OldestFirst, query.Limit, query.Bare = true, stepSize, true
	return query
}

// Begin implements ActionWorker.
func (w deadLetterSteps) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor posthaste.ActionCursor, err error) {
	newest, err := w.engine.NewestDeadLetter(ctx, action.User)
	_, cursor.Low, cursor.High = action.Filter.Dated()
	cursor.High = min(cursor.High, newest)
	query := w.query(action, cursor)
	for err == nil {
		var page store.DeadLetterPage
		page, err = w.engine.DeadLetters(ctx, action.User, query)
		if total += len(page.IDs); !page.More {
			break
		}
		query.Low = page.Next
	}
	return total, cursor, err
}

// next returns the ids of the next step, and its progress.
func (w deadLetterSteps) next(ctx context.Context, action *posthaste.BulkAction, advance Advance,
) (ids []posthaste.DeadLetterID, progress store.Progress, err error) {
	page, err := w.engine.DeadLetters(ctx, action.User, w.query(action, action.Cursor))
	end := action.Cursor.High
	return page.IDs, func(left []posthaste.DeadLetterID) *store.Step {
		switch {
		case len(left) > 0:
			return advance(posthaste.ActionCursor{Low: posthaste.Position(left[0]), High: end})
		case page.More:
			return advance(posthaste.ActionCursor{Low: page.Next, High: end})
		default:
			return advance(posthaste.ActionCursor{})
		}
	}, err
}

// deleteWorker deletes matching dead letters.
type deleteWorker struct{ deadLetterSteps }

// Step implements ActionWorker.
func (w deleteWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance Advance) error {
	ids, progress, err := w.next(ctx, action, advance)
	if err != nil {
		return err
	}
	_, err = w.engine.options.Store.DeleteDeadLetters(ctx, action.User, ids, progress)
	return err
}

// retryWorker retries matching dead letters.
type retryWorker struct{ deadLetterSteps }

// Step implements ActionWorker.
func (w retryWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance Advance) error {
	ids, progress, err := w.next(ctx, action, advance)
	if err != nil {
		return err
	}
	_, err = w.engine.retry(ctx, action.User, ids, action.Overrides, progress)
	return err
}
