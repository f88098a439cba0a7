package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// FailedRuns manages the DLQ of runs.
type FailedRuns interface {
	Failed(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error)
	FailedIDs(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error)

	// Restart restarts or resumes failed runs, or returns the cached response to a repetition.
	Restart(ctx context.Context, user string, req workflow.RestartRequest) (done workflow.Restarts, kept []byte, err error)

	// CheckOverrides returns an Error about overrides that every restart would reject.
	CheckOverrides(o posthaste.Overrides) error

	// CannotRestart returns the entries that Restart would reject.
	CannotRestart(ctx context.Context, user string, req workflow.RestartRequest) ([]workflow.Restarted, error)
	// DeleteFailed returns the number of removed entries.
	DeleteFailed(ctx context.Context, user string, ids []posthaste.DeadLetterID) (int, error)

	RetryFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (workflow.RunID, error)
	CancelFailureCallback(ctx context.Context, user string, id posthaste.DeadLetterID) (workflow.RunID, error)
}

// failedRunRoutes are the routes of the DLQ of runs (contract, workflows 6.4).
func (a *api) failedRunRoutes() []route {
	d := a.failedRunDLQ()
	const restart, resume = posthaste.ActionRestart, posthaste.ActionResume
	return []route{
		{"GET /v2/workflows/dlq", read, of((*request).params, a.listFailedRuns)},
		{"DELETE /v2/workflows/dlq", submit, a.deleteEntries(d)},
		{"DELETE /v2/workflows/dlq/", write, refuseEmptyID},
		{"GET /v2/workflows/dlq/{id}", read, withoutQuery(of(runDLQID, a.getFailedRun))},
		{"DELETE /v2/workflows/dlq/{id}", submit, withoutBody(of(runDLQID, a.deleteEntry(d)))},

		{"POST /v2/workflows/dlq/restart", submit, controlled(a.restartFailedRuns(restart))},
		{"POST /v2/workflows/dlq/restart/", write, refuseEmptyID},
		{"POST /v2/workflows/dlq/restart/{id}", submit, controlled(withoutBody(of(runDLQID, a.restartFailedRun(restart))))},
		{"POST /v2/workflows/dlq/resume", submit, controlled(a.restartFailedRuns(resume))},
		{"POST /v2/workflows/dlq/resume/", write, refuseEmptyID},
		{"POST /v2/workflows/dlq/resume/{id}", submit, controlled(withoutBody(of(runDLQID, a.restartFailedRun(resume))))},

		{"POST /v2/workflows/dlq/callback/", write, refuseEmptyID},
		{"POST /v2/workflows/dlq/callback/{id}", submit, withoutBody(of(runDLQID, a.changeFailureCallback(FailedRuns.RetryFailureCallback)))},
		{"DELETE /v2/workflows/dlq/callback/", write, refuseEmptyID},
		{"DELETE /v2/workflows/dlq/callback/{id}", submit, withoutBody(of(runDLQID, a.changeFailureCallback(FailedRuns.CancelFailureCallback)))},
	}
}

// listFailedRuns shows a page of the DLQ of runs.
func (a *api) listFailedRuns(r *request, params url.Values) (answer, error) {
	selected, err := wire.FailedRuns(params, dlqCount)
	if err != nil {
		return answer{}, err
	}
	return r.page("messages", func(add func(any)) (cursor string, err error) {
		read, err := a.options.Workflows.Failed(r.Context(), r.user, selected.Runs())
		for i, run := range read.Runs {
			add(newFailedRunView(run, read.DeadLetters[i], bodyLimit(selected.BodyLimit)))
		}
		return cursorOf(read.More, read.Next), err
	})
}

func (a *api) getFailedRun(r *request, id posthaste.DeadLetterID) (answer, error) {
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

func oneFailedRun(id posthaste.DeadLetterID) store.RunQuery {
	return store.RunQuery{
		Filter: posthaste.Filter{DeadLetterIDs: []posthaste.DeadLetterID{id}},
		High:   posthaste.MaxPosition,
		Limit:  1,
	}
}

// runView identifies a run.
type runView struct {
	WorkflowRunID     string `json:"workflowRunId"`
	WorkflowCreatedAt int64  `json:"workflowCreatedAt"` // Unix ms
}

// changeFailureCallback resends a failed run's failure callback, or cancels one in progress.
func (a *api) changeFailureCallback(change func(FailedRuns, context.Context, string, posthaste.DeadLetterID) (workflow.RunID, error),
) func(r *request, id posthaste.DeadLetterID) (answer, error) {
	return func(r *request, id posthaste.DeadLetterID) (answer, error) {
		run, err := change(a.options.Workflows, r.Context(), r.user, id)
		if errors.Is(err, store.ErrNotFound) {
			return answer{}, a.explainMissing(r, id)
		}
		return ok(runView{run.ID, run.CreatedAt.UnixMilli()}), err
	}
}

// explainMissing returns the error about an unknown entry, which may be one of a message.
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

// failedRunView is an entry of the DLQ of runs as shown (contract, workflows 5.3): the failed
// message as sent, and the run's failure callback.
type failedRunView struct {
	deadLetterView
	FailureFunctionState posthaste.CallbackState `json:"failureFunctionState,omitempty"`
	FailureCallbackInfo  *callbackInfo           `json:"failureCallbackInfo,omitempty"`
}

// callbackInfo is the state and last response of a failure callback.
type callbackInfo struct {
	State              posthaste.CallbackState `json:"state"`
	ResponseStatus     int                     `json:"responseStatus,omitempty"`
	ResponseHeaders    http.Header             `json:"responseHeaders,omitempty"`
	ResponseBody       string                  `json:"responseBody,omitempty"`       // if it is text
	ResponseBodyBase64 string                  `json:"responseBodyBase64,omitempty"` // if it is not
	ResponseTruncated  bool                    `json:"responseTruncated,omitempty"`  // larger than what is stored
	Error              string                  `json:"error,omitempty"`
}

func newFailedRunView(run *posthaste.Run, d *posthaste.DeadLetter, limit bodyLimit) failedRunView {
	m, shown := *d.Message, *d
	m.Header = workflow.SentHeader(run, d.Message)
	m.CallerIP, m.Labels = run.CallerIP, run.Labels
	m.FailureCallback = cmp.Or(m.FailureCallback, run.FailureCallback)
	shown.Message = &m
	view := failedRunView{deadLetterView: newDeadLetterView(&shown, limit)}
	if run.Reported != nil {
		view.FailureFunctionState = run.Reported.State
		view.FailureCallbackInfo = newCallbackInfo(run.Reported, limit)
	}
	return view
}

func newCallbackInfo(c *posthaste.RunCallback, limit bodyLimit) *callbackInfo {
	info := &callbackInfo{State: c.State, Error: c.Error}
	if c.Response != nil {
		info.ResponseStatus, info.ResponseHeaders = c.Response.Status, posthaste.HeaderInJSON(c.Response.Header)
		info.ResponseBody, info.ResponseBodyBase64 = limit.textOrBase64(c.Response.Body)
		info.ResponseTruncated = c.Response.Truncated
	}
	return info
}
