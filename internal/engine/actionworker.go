package engine

import (
	"context"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// cancelWorker cancels matching messages that existed when the action began.
type cancelWorker struct{ engine *Engine }

func (w cancelWorker) query(action *posthaste.BulkAction) (store.LiveQuery, error) {
	query, err := wire.Live(action.Filter)
	query.Limit, query.Cursor = stepSize, action.Cursor
	query.CreatedUntil = earlier(query.CreatedUntil, action.CreatedAt)
	return query, err
}

// Begin implements ActionWorker.
func (w cancelWorker) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, first string, err error) {
	query, err := w.query(action)
	if err != nil {
		return 0, "", err
	}
	for {
		ids, cursor, err := w.engine.options.Store.LiveMessages(ctx, action.User, query)
		if total += len(ids); err != nil || cursor == "" {
			return total, "", err
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

// deadLetterSteps pages through matching dead letters that existed when the action began, oldest
// first. The cursor has the next and the last position, as in a client's sweep.
type deadLetterSteps struct{ engine *Engine }

func (w deadLetterSteps) query(ctx context.Context, action *posthaste.BulkAction) (store.DeadLetterQuery, error) {
	query, err := wire.DeadLetters(action.Filter)
	if err != nil {
		return query, err
	}
	query.OldestFirst, query.Limit, query.Bare = true, stepSize, true
	next, end, begun := wire.ParseSweepCursor(action.Cursor)
	if !begun {
		end, err = w.newest(ctx, action.User)
	}
	query.Low, query.High = max(query.Low, next), min(query.High, end)
	return query, err
}

// newest returns the position of the latest dead letter, 0 if there is none.
func (w deadLetterSteps) newest(ctx context.Context, user string) (posthaste.Position, error) {
	page, err := w.engine.DeadLetters(ctx, user, store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 1, Bare: true})
	if err != nil || len(page.IDs) == 0 {
		return 0, err
	}
	return posthaste.Position(page.IDs[0]), nil
}

// Begin implements ActionWorker.
func (w deadLetterSteps) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor string, err error) {
	query, err := w.query(ctx, action)
	cursor = wire.SweepCursor(query.Low, query.High)
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
func (w deadLetterSteps) next(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step,
) (ids []posthaste.DeadLetterID, progress store.Progress, err error) {
	query, err := w.query(ctx, action)
	if err != nil {
		return nil, nil, err
	}
	page, err := w.engine.DeadLetters(ctx, action.User, query)
	return page.IDs, func(left []posthaste.DeadLetterID) *store.Step {
		switch {
		case len(left) > 0:
			return advance(wire.SweepCursor(posthaste.Position(left[0]), query.High))
		case page.More:
			return advance(wire.SweepCursor(page.Next, query.High))
		default:
			return advance("")
		}
	}, err
}

// deleteWorker deletes matching dead letters.
type deleteWorker struct{ deadLetterSteps }

// Step implements ActionWorker.
func (w deleteWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
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
func (w retryWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	ids, progress, err := w.next(ctx, action, advance)
	if err != nil {
		return err
	}
	overrides, err := w.engine.options.DecodeOverrides(action.Header)
	if err != nil {
		return err
	}
	_, err = w.engine.retry(ctx, action.User, ids, overrides, progress)
	return err
}
