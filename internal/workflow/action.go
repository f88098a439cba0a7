package workflow

import (
	"context"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// actionStep is the maximum number of runs that a bulk action changes in one commit.
const actionStep = 200

// ActionWorkers returns the workers for bulk actions on runs.
func (s *Service) ActionWorkers() map[posthaste.ActionKind]engine.ActionWorker {
	restart := func(resume bool) engine.ActionWorker {
		return engine.DLQWorker{Find: s.FailedIDs, Change: func(ctx context.Context, action *posthaste.BulkAction, ids []posthaste.DeadLetterID, progress store.Progress) error {
			req := RestartRequest{IDs: ids, Resume: resume, Overrides: action.Overrides, CallerIP: action.CallerIP}
			return s.restartStep(ctx, action.User, req, progress)
		}}
	}
	return map[posthaste.ActionKind]engine.ActionWorker{
		posthaste.ActionRestart: restart(false),
		posthaste.ActionResume:  restart(true),
		posthaste.ActionDeleteRuns: engine.DLQWorker{Find: s.FailedIDs, Change: func(ctx context.Context, action *posthaste.BulkAction, ids []posthaste.DeadLetterID, progress store.Progress) error {
			_, _, err := s.deleteFailed(ctx, action.User, ids, progress)
			return err
		}},
		posthaste.ActionCancelRuns: cancelWorker{s},
	}
}

// runsLeft returns the query for the runs that an action has left, oldest first.
func runsLeft(action *posthaste.BulkAction) store.RunQuery {
	query := store.RunsMatching(&action.Filter)
	query.Low, query.High = action.Cursor.Low, action.Cursor.High
	query.OldestFirst, query.Limit, query.Bare = true, actionStep, true
	return query
}

// cursorAfter returns an action's cursor after a page, zero after the last one.
func cursorAfter(page store.RunPage, end posthaste.Position) posthaste.ActionCursor {
	if !page.More {
		return posthaste.ActionCursor{}
	}
	return posthaste.ActionCursor{Low: page.Next, High: end}
}

// cancelWorker cancels matching runs that were active when the action began.
type cancelWorker struct{ service *Service }

func (w cancelWorker) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor posthaste.ActionCursor, err error) {
	query, err := w.service.activeNow(ctx, action.User, store.RunsMatching(&action.Filter))
	cursor.Low, cursor.High = query.Low, query.High
	query.OldestFirst, query.Limit = true, actionStep
	for err == nil {
		var page store.RunPage
		page, err = w.service.options.Store.Runs(ctx, action.User, query)
		if total += len(page.Runs); !page.More {
			break
		}
		query.Low = page.Next
	}
	return total, cursor, err
}

func (w cancelWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance engine.Advance) error {
	query := runsLeft(action)
	query.Filter.RunStates = []posthaste.RunState{posthaste.RunStarted}
	page, err := w.service.options.Store.Runs(ctx, action.User, query)
	if err != nil {
		return err
	}
	_, _, err = w.service.cancelRuns(ctx, action.User, page.Runs, func(left []*posthaste.Run) *store.Step {
		if len(left) > 0 {
			return advance(posthaste.ActionCursor{Low: left[0].Position, High: query.High})
		}
		return advance(cursorAfter(page, query.High))
	})
	return err
}
