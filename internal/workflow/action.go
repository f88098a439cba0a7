package workflow

import (
	"context"
	"maps"
	"net/http"
	"net/url"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// actionStep is the maximum number of runs that a bulk action changes in one commit.
const actionStep = 200

// ActionWorkers returns the workers for bulk actions on runs. overrides decodes those of an
// action, which are stored as the request's headers.
func (s *Service) ActionWorkers(overrides func(http.Header) (engine.Overrides, error)) map[posthaste.ActionKind]engine.ActionWorker {
	letters := dlqSteps{s}
	return map[posthaste.ActionKind]engine.ActionWorker{
		posthaste.ActionRestart:    restartWorker{letters, overrides, false},
		posthaste.ActionResume:     restartWorker{letters, overrides, true},
		posthaste.ActionDeleteRuns: deleteWorker{letters},
		posthaste.ActionCancelRuns: cancelWorker{s},
	}
}

// dlqSteps pages through matching entries of the DLQ of runs that existed when the action began,
// oldest first. The cursor has the next and the last position, as in a client's sweep.
type dlqSteps struct{ service *Service }

func (l dlqSteps) query(ctx context.Context, action *posthaste.BulkAction) (store.RunQuery, error) {
	params := url.Values{"cursor": {action.Cursor}}
	maps.Copy(params, action.Filter)
	query, begun, err := wire.FailedRuns(params)
	if err != nil || begun {
		return query, err
	}
	return l.service.BeginSweep(ctx, action.User, query)
}

func (l dlqSteps) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor string, err error) {
	query, err := l.query(ctx, action)
	if err != nil {
		return 0, "", err
	}
	total, err = l.service.CountFailed(ctx, action.User, query)
	return total, wire.FirstSweepCursor(query.Low, query.High, query.OldestFirst), err
}

// next returns the ids of the next step, and its progress.
func (l dlqSteps) next(ctx context.Context, action *posthaste.BulkAction) (ids []posthaste.DeadLetterID, after func(left []posthaste.DeadLetterID) string, err error) {
	query, err := l.query(ctx, action)
	if err != nil {
		return nil, nil, err
	}
	query.Limit, query.Bare = actionStep, true
	page, err := l.service.Failed(ctx, action.User, query)
	for _, run := range page.Runs {
		ids = append(ids, run.DeadLetterID)
	}
	return ids, func(left []posthaste.DeadLetterID) string {
		if len(left) > 0 {
			return wire.SweepCursor(posthaste.Position(left[0]), query.High)
		}
		return cursorAfter(page, query.High)
	}, err
}

// cursorAfter returns the sweep's cursor after a page, "" after the last one.
func cursorAfter(page store.RunPage, end posthaste.Position) string {
	if !page.More {
		return ""
	}
	return wire.SweepCursor(page.Next, end)
}

// restartWorker restarts or resumes matching entries.
type restartWorker struct {
	dlqSteps
	overrides func(http.Header) (engine.Overrides, error)
	resume    bool
}

func (w restartWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	overrides, err := w.overrides(action.Header)
	if err != nil {
		return err
	}
	ids, after, err := w.next(ctx, action)
	if err != nil {
		return err
	}
	req := RestartRequest{IDs: ids, Resume: w.resume, Overrides: overrides, CallerIP: action.CallerIP}
	return w.service.restartStep(ctx, action.User, req, func(left []posthaste.DeadLetterID) *store.Step { return advance(after(left)) })
}

// deleteWorker deletes matching entries.
type deleteWorker struct{ dlqSteps }

func (w deleteWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	ids, after, err := w.next(ctx, action)
	if err != nil {
		return err
	}
	_, _, err = w.service.deleteFailed(ctx, action.User, ids, func(left []posthaste.DeadLetterID) *store.Step { return advance(after(left)) })
	return err
}

// cancelWorker cancels matching runs that were active when the action began.
type cancelWorker struct{ service *Service }

func (w cancelWorker) query(ctx context.Context, action *posthaste.BulkAction) (store.RunQuery, error) {
	query, err := wire.LiveRuns(action.Filter)
	if err != nil {
		return query, err
	}
	query.OldestFirst, query.Limit = true, actionStep
	if next, end, begun := wire.ParseSweepCursor(action.Cursor); begun {
		query.Low, query.High = max(query.Low, next), min(query.High, end)
	}
	return w.service.activeNow(ctx, action.User, query)
}

func (w cancelWorker) Begin(ctx context.Context, action *posthaste.BulkAction) (total int, cursor string, err error) {
	query, err := w.query(ctx, action)
	cursor = wire.SweepCursor(query.Low, query.High)
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

func (w cancelWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	query, err := w.query(ctx, action)
	if err != nil {
		return err
	}
	page, err := w.service.options.Store.Runs(ctx, action.User, query)
	if err != nil {
		return err
	}
	_, _, err = w.service.cancelRuns(ctx, action.User, page.Runs, func(left []*posthaste.Run) *store.Step {
		if len(left) > 0 {
			return advance(wire.SweepCursor(left[0].Position, query.High))
		}
		return advance(cursorAfter(page, query.High))
	})
	return err
}
