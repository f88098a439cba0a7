package workflow

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/selection"
	"posthaste/internal/store"
)

// actionStep is how many runs a bulk action changes in one commit.
const actionStep = 200

// ActionWorkers returns what does the bulk actions on runs. overrides reads those of
// an action, which are kept as the headers they came in.
func (s *Service) ActionWorkers(overrides func(http.Header) (engine.Overrides, error)) map[posthaste.ActionKind]engine.ActionWorker {
	letters := letterSteps{s}
	return map[posthaste.ActionKind]engine.ActionWorker{
		posthaste.ActionRestart:    restartWorker{letters, overrides, false},
		posthaste.ActionResume:     restartWorker{letters, overrides, true},
		posthaste.ActionDeleteRuns: deleteWorker{letters},
		posthaste.ActionCancelRuns: cancelWorker{s},
	}
}

// letterSteps walks through the entries of the DLQ of runs that match a filter and
// had failed when the action began, oldest first. It is a sweep like that of a client:
// the cursor tells where it goes on and where it ends.
type letterSteps struct{ service *Service }

func (l letterSteps) query(ctx context.Context, action *posthaste.BulkAction) (store.RunQuery, error) {
	params := url.Values{"cursor": {action.Cursor}}
	maps.Copy(params, action.Filter)
	query, begun, err := selection.FailedRuns(params)
	if err != nil || begun {
		return query, err
	}
	query.High = min(query.High, posthaste.LastPosition(action.CreatedAt))
	return l.service.BeginSweep(ctx, action.User, query)
}

// continueAt moves the beginning of a query to a cursor's place.
func continueAt(low posthaste.Position, cursor string) (posthaste.Position, error) {
	if cursor == "" {
		return low, nil
	}
	at, err := strconv.ParseUint(cursor, 10, 63)
	return max(low, posthaste.Position(at)), err
}

// cursorAfter returns the cursor that continues after a page, "" after the last.
func cursorAfter(page store.RunPage) string {
	if !page.More {
		return ""
	}
	return strconv.FormatUint(uint64(page.Next), 10)
}

// Count implements engine.ActionWorker.
func (l letterSteps) Count(ctx context.Context, action *posthaste.BulkAction) (int, error) {
	query, err := l.query(ctx, action)
	if err != nil {
		return 0, err
	}
	return l.service.CountFailed(ctx, action.User, query)
}

// next returns the ids of the next step and the cursor for the one after.
func (l letterSteps) next(ctx context.Context, action *posthaste.BulkAction) (ids []posthaste.DeadLetterID, cursor string, err error) {
	query, err := l.query(ctx, action)
	if err != nil {
		return nil, "", err
	}
	query.Limit, query.Bare = actionStep, true
	page, err := l.service.Failed(ctx, action.User, query)
	for _, run := range page.Runs {
		ids = append(ids, run.DeadLetterID)
	}
	if page.More {
		cursor = selection.SweepCursor(page.Next, query.High)
	}
	return ids, cursor, err
}

// restartWorker restarts or resumes what matches a filter.
type restartWorker struct {
	letterSteps
	overrides func(http.Header) (engine.Overrides, error)
	resume    bool
}

// Step implements engine.ActionWorker.
func (w restartWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	overrides, err := w.overrides(action.Header)
	if err != nil {
		return err
	}
	ids, cursor, err := w.next(ctx, action)
	if err != nil {
		return err
	}
	req := RestartRequest{IDs: ids, Resume: w.resume, Overrides: overrides, CallerIP: action.CallerIP}
	return w.service.restartStep(ctx, action.User, req, advance(cursor))
}

// deleteWorker deletes what matches a filter from the DLQ of runs.
type deleteWorker struct{ letterSteps }

// Step implements engine.ActionWorker.
func (w deleteWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	ids, cursor, err := w.next(ctx, action)
	if err != nil {
		return err
	}
	_, err = w.service.deleteFailed(ctx, action.User, ids, advance(cursor))
	return err
}

// cancelWorker cancels the runs that match a filter and went on when the action
// began.
type cancelWorker struct{ service *Service }

func (w cancelWorker) query(action *posthaste.BulkAction) (store.RunQuery, error) {
	query, err := selection.LiveRuns(action.Filter)
	if err != nil {
		return query, err
	}
	query = goingOn(query, action.CreatedAt)
	query.OldestFirst, query.Limit = true, actionStep
	query.Low, err = continueAt(query.Low, action.Cursor)
	return query, err
}

// Count implements engine.ActionWorker.
func (w cancelWorker) Count(ctx context.Context, action *posthaste.BulkAction) (total int, err error) {
	query, err := w.query(action)
	for err == nil {
		var page store.RunPage
		page, err = w.service.options.Store.Runs(ctx, action.User, query)
		if total += len(page.Runs); !page.More {
			break
		}
		query.Low = page.Next
	}
	return total, err
}

// Step implements engine.ActionWorker.
func (w cancelWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance func(string) *store.Step) error {
	query, err := w.query(action)
	if err != nil {
		return err
	}
	page, err := w.service.options.Store.Runs(ctx, action.User, query)
	if err != nil {
		return err
	}
	_, err = w.service.cancelPage(ctx, action.User, page, advance(cursorAfter(page)))
	return err
}
