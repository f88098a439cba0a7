package api

import (
	"context"
	"errors"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/selection"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// FailedRuns is the DLQ of workflow runs.
type FailedRuns interface {
	Failed(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error)
	CountFailed(ctx context.Context, user string, query store.RunQuery) (int, error)

	// BeginSweep ends a query at what is the newest entry now.
	BeginSweep(ctx context.Context, user string, query store.RunQuery) (store.RunQuery, error)

	// Restart restarts failed runs, or resumes them. It returns the cached response
	// instead if the request is a repetition.
	Restart(ctx context.Context, user string, req workflow.RestartRequest) (done workflow.Restarts, kept []byte, err error)

	// CheckOverrides returns an Error about overrides that every restart would refuse.
	CheckOverrides(o engine.Overrides) error

	// CannotRestart returns those entries that Restart would refuse.
	CannotRestart(ctx context.Context, user string, req workflow.RestartRequest) ([]workflow.Restarted, error)
	// DeleteFailed returns how many of the entries there were.
	DeleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID) (int, error)

	RetryFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (workflow.RunID, error)
	CancelFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (workflow.RunID, error)
}

// failedRunRoutes are the routes of the DLQ of runs (contract, workflows 6.4).
func (a *api) failedRunRoutes() []route {
	const restart, resume = posthaste.ActionRestart, posthaste.ActionResume
	return []route{
		{"GET /v2/workflows/dlq", read, a.listFailedRuns},
		{"DELETE /v2/workflows/dlq", submit, a.deleteFailedRuns},
		{"DELETE /v2/workflows/dlq/", write, refuseEmptyID},
		{"GET /v2/workflows/dlq/{id}", read, plain(a.getFailedRun)},
		{"DELETE /v2/workflows/dlq/{id}", submit, alone(a.deleteFailedRun)},

		{"POST /v2/workflows/dlq/restart", submit, controlled(a.restartFailedRuns(restart))},
		{"POST /v2/workflows/dlq/restart/", write, refuseEmptyID},
		{"POST /v2/workflows/dlq/restart/{id}", submit, controlled(alone(a.restartFailedRun(restart)))},
		{"POST /v2/workflows/dlq/resume", submit, controlled(a.restartFailedRuns(resume))},
		{"POST /v2/workflows/dlq/resume/", write, refuseEmptyID},
		{"POST /v2/workflows/dlq/resume/{id}", submit, controlled(alone(a.restartFailedRun(resume)))},

		{"POST /v2/workflows/dlq/callback/", write, refuseEmptyID},
		{"POST /v2/workflows/dlq/callback/{id}", submit, alone(a.retryFailureCallback)},
		{"DELETE /v2/workflows/dlq/callback/", write, refuseEmptyID},
		{"DELETE /v2/workflows/dlq/callback/{id}", submit, alone(a.cancelFailureCallback)},
	}
}

// failedRunCount is how many entries one call lists or deletes.
var failedRunCount = selection.Count{Default: 100, Most: 100}

// listFailedRuns shows a page of the DLQ of runs.
func (a *api) listFailedRuns(r *request) (answer, error) {
	params, err := r.params()
	if err != nil {
		return answer{}, err
	}
	query, err := selection.FailedRunList(params)
	if err != nil {
		return answer{}, err
	}
	if query.Limit, err = failedRunCount.Read(params); err != nil {
		return answer{}, err
	}
	limit, err := selection.BodyLimit(params)
	if err != nil {
		return answer{}, err
	}
	return r.page("messages", func(add func(any)) (cursor string, err error) {
		read, err := a.options.Workflows.Failed(r.Context(), r.user, query)
		for i, run := range read.Runs {
			add(newFailedRunView(run, read.DeadLetters[i], bodyLimit(limit)))
		}
		return cursorOf(read.More, read.Next), err
	})
}

func (a *api) getFailedRun(r *request) (answer, error) {
	id, err := r.failedRunID()
	if err != nil {
		return answer{}, err
	}
	return r.readOne(func() (view any, size int, err error) {
		page, err := a.options.Workflows.Failed(r.Context(), r.user, oneFailedRun(id))
		if err != nil {
			return nil, 0, err
		}
		if len(page.Runs) == 0 {
			return nil, 0, workflow.NoFailedRun(id.String())
		}
		run, letter := page.Runs[0], page.DeadLetters[0]
		return newFailedRunView(run, letter, wholeBody), store.RunSize(run) + store.DeadLetterSize(letter), nil
	})
}

// oneFailedRun is the query for one entry.
func oneFailedRun(id posthaste.DeadLetterID) store.RunQuery {
	return store.RunQuery{
		Filter: store.RunFilter{DeadLetterIDs: []posthaste.DeadLetterID{id}},
		High:   posthaste.MaxPosition,
		Limit:  1,
	}
}

func (a *api) deleteFailedRun(r *request) (answer, error) {
	id, err := r.failedRunID()
	if err != nil {
		return answer{}, err
	}
	deleted, err := a.options.Workflows.DeleteFailed(r.Context(), r.user, []posthaste.DeadLetterID{id})
	if err == nil && deleted == 0 {
		err = a.explainMissing(r, id)
	}
	return done, err
}

// runView names a run and when it was created.
type runView struct {
	WorkflowRunID     string `json:"workflowRunId"`
	WorkflowCreatedAt int64  `json:"workflowCreatedAt"` // Unix ms
}

// retryFailureCallback sends the failure callback of a failed run once more.
func (a *api) retryFailureCallback(r *request) (answer, error) {
	return a.changeFailureCallback(r, a.options.Workflows.RetryFailureCallback)
}

// cancelFailureCallback cancels a failure callback that is in progress.
func (a *api) cancelFailureCallback(r *request) (answer, error) {
	return a.changeFailureCallback(r, a.options.Workflows.CancelFailureCallback)
}

func (a *api) changeFailureCallback(r *request, change func(context.Context, string, posthaste.DeadLetterID) (workflow.RunID, error)) (answer, error) {
	id, err := r.failedRunID()
	if err != nil {
		return answer{}, err
	}
	run, err := change(r.Context(), r.user, id)
	if errors.Is(err, store.ErrNotFound) {
		return answer{}, a.explainMissing(r, id)
	}
	return ok(runView{run.ID, run.CreatedAt.UnixMilli()}), err
}

// failedRunID returns the id in the path. A text that is no id names no failed run.
func (r *request) failedRunID() (posthaste.DeadLetterID, error) {
	text := r.pathText("id")
	id, ok := posthaste.ParseDeadLetterID(text)
	if !ok {
		return 0, workflow.NoFailedRun(text)
	}
	return id, nil
}

// explainMissing returns the error about an id that is not in the DLQ of runs, and
// says so if it is one of a message.
func (a *api) explainMissing(r *request, id posthaste.DeadLetterID) error {
	_, err := a.options.Engine.DeadLetter(r.Context(), r.user, id)
	if errors.Is(err, store.ErrNotFound) {
		return workflow.NoFailedRun(id.String())
	}
	if err != nil {
		return err
	}
	return posthaste.Invalidf("dead letter %s belongs to a message, not to a workflow run: use /v2/dlq", id)
}
