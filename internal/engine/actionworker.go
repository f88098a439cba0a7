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
	query.CreatedUntil = store.Earlier(query.CreatedUntil, action.CreatedAt)
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

// DLQWorker changes matching entries of a DLQ that existed when the action began, oldest first.
type DLQWorker struct {
	Find   FindEntries
	Change func(ctx context.Context, action *posthaste.BulkAction, ids []posthaste.DeadLetterID, progress store.Progress) error
}

// Begin implements ActionWorker.
func (w DLQWorker) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor posthaste.ActionCursor, err error) {
	query := store.DeadLettersMatching(&action.Filter)
	newest, err := w.Find.Newest(ctx, action.User)
	if err != nil {
		return 0, cursor, err
	}
	query.High = min(query.High, newest)
	total, err = w.Find.Count(ctx, action.User, query)
	return total, posthaste.ActionCursor{Low: query.Low, High: query.High}, err
}

// Step implements ActionWorker.
func (w DLQWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance Advance) error {
	query := store.DeadLettersMatching(&action.Filter)
	query.Low, query.High = action.Cursor.Low, action.Cursor.High
	query.OldestFirst, query.Limit, query.Bare = true, stepSize, true
	page, err := w.Find(ctx, action.User, query)
	if err != nil {
		return err
	}
	return w.Change(ctx, action, page.IDs, func(left []posthaste.DeadLetterID) *store.Step {
		switch {
		case len(left) > 0:
			return advance(posthaste.ActionCursor{Low: posthaste.Position(left[0]), High: query.High})
		case page.More:
			return advance(posthaste.ActionCursor{Low: page.Next, High: query.High})
		default:
			return advance(posthaste.ActionCursor{})
		}
	})
}
