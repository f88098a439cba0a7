package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// Runs is the protocol of the workflow SDKs.
type Runs interface {
	// Submit accepts all items or none.
	Submit(ctx context.Context, user string, items []workflow.Item) ([]workflow.Receipt, error)
	Wait(ctx context.Context, user string, req workflow.WaitRequest) (posthaste.MessageID, error)
	Notify(ctx context.Context, user, eventID string, event []byte) ([]workflow.Notified, error)
	NotifyRun(ctx context.Context, user, runID, eventID string, event []byte) (workflow.Notified, error)
	// FindHook and CallHook return store.ErrNotFound unless an active run has created the
	// webhook.
	FindHook(ctx context.Context, hook workflow.Hook) error
	CallHook(ctx context.Context, hook workflow.Hook, event []byte) error
	EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error)
	Entries(ctx context.Context, user string, id workflow.RunID, reserve func(bytes int) error) ([]posthaste.RunEntry, error)
	Finish(ctx context.Context, user string, id workflow.RunID, result *string) error
	Cancel(ctx context.Context, user string, id workflow.RunID) error
	CancelIDs(ctx context.Context, user string, ids []string) (int, error)
	CancelMatching(ctx context.Context, user string, query store.RunQuery, limit int) (int, error)
}

// runRoutes are the routes of that protocol (contract, workflows 6).
func (a *api) runRoutes() []route {
	return []route{
		{"POST /v2/trigger/*", submit, of((*request).knownControls, a.trigger)},
		{"POST /v2/batch/trigger", submit, withoutQuery(a.triggerBatch)},

		{"GET /v2/workflows/runs/{run}", read, controlled(withoutQuery(of((*request).runID, a.getEntries)))},
		{"DELETE /v2/workflows/runs/{run}", submit, controlled(of((*request).params, a.endRun))},
		{"DELETE /v2/workflows/runs", submit, a.cancelRuns},
		{"DELETE /v2/workflows/runs/", write, refuseEmptyID},
		{"GET /v2/workflows/bulkActions", read, withoutQuery(a.listActions(true))},
		{"GET /v2/workflows/bulkActions/{id}", read, withoutQuery(of(a.actionInPath(true), a.getAction))},
		{"DELETE /v2/workflows/bulkActions/{id}", submit, withoutBody(of(a.actionInPath(true), a.cancelAction))},

		{"POST /v2/wait/{event}", submit, controlled(of((*request).eventID, a.wait))},
		{"POST /v2/wait/", write, refuseEmptyID},
		{"GET /v2/waiters/{event}", read, withoutQuery(of((*request).eventID, a.listWaiters))},
		{"POST /v2/notify/{event}", submit, withoutQuery(a.notify)},
		{"POST /v2/notify/", write, refuseEmptyID},
		{"POST /v2/notify/{run}/{event}", submit, withoutQuery(a.notifyRun)},
		{anyMethod + " /v2/workflows/hooks/{user}/{run}/{event}", open, a.callHook},
	}
}

// runID returns the run in the path, created at the time in the headers.
func (r *request) runID() (id workflow.RunID, err error) {
	c, err := r.collectControls()
	if err != nil {
		return id, err
	}
	id, err = wire.RunID(c)
	id.ID = r.pathText("run")
	return id, err
}

func noActiveRun(id string) error {
	return posthaste.Errorf(posthaste.CodeNotFound, "workflow run %.200q is not active: it has ended, or never existed", id)
}

// getEntries shows the list of an active run to an SDK that must fetch it (contract, workflows
// 3.4).
func (a *api) getEntries(r *request, id workflow.RunID) (_ answer, err error) {
	list := entryList{reserved: r.newReservation()}
	list.entries, err = a.options.Workflows.Entries(r.Context(), r.user, id, func(bytes int) error {
		list.reserved.most = max(int64(bytes), leastBody)
		if err := list.reserved.reserve(r.Context()); err != nil {
			return err
		}
		return r.work()
	})
	if err != nil {
		list.reserved.release()
	}
	if errors.Is(err, store.ErrNotFound) {
		return answer{}, noActiveRun(id.ID)
	}
	return ok(list), err
}

// entryList writes entries one by one, because bodies may be large.
type entryList struct {
	reserved *reservation // given back when all is written
	entries  []posthaste.RunEntry
}

type entryView struct {
	MessageID posthaste.MessageID `json:"messageId"`
	Body      []byte              `json:"body"` // base64
	CallType  posthaste.CallType  `json:"callType"`
}

func (l entryList) stream(w io.Writer) error {
	defer l.reserved.release()
	separator := "["
	for _, entry := range l.entries {
		view := encodeJSON(entryView{entry.MessageID, append([]byte{}, entry.Body...), entry.CallType})
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if _, err := w.Write(bytes.TrimSuffix(view, []byte("\n"))); err != nil {
			return err
		}
		separator = ","
	}
	_, err := io.WriteString(w, "]\n")
	return err
}

// endRun finishes a run with cancel=false and its result, as SDKs do, or cancels it.
func (a *api) endRun(r *request, params url.Values) (answer, error) {
	finished, err := readFinished(params)
	if err != nil {
		return answer{}, err
	}
	r.forRun = finished
	id, err := r.runID()
	if err != nil {
		return answer{}, err
	}
	if finished {
		return a.finishRun(r, id)
	}
	if err := r.refuseBody(); err != nil {
		return answer{}, err
	}
	err = a.options.Workflows.Cancel(r.Context(), r.user, id)
	if errors.Is(err, store.ErrNotFound) {
		return answer{}, posthaste.Errorf(posthaste.CodeNotFound, "workflow run %.200q is not known", id.ID)
	}
	return done, err
}

// readFinished reports whether a run is finished rather than cancelled.
func readFinished(params url.Values) (bool, error) {
	const name = "cancel"
	if err := wire.CheckNames(params, name); err != nil {
		return false, err
	}
	cancelled, err := wire.Flag(params, name)
	return params.Get(name) != "" && !cancelled, err
}

// finishRun stores a result. It ignores ended and unknown runs (contract, workflows D 10).
func (a *api) finishRun(r *request, id workflow.RunID) (answer, error) {
	body, err := r.readBody(a.options.MaxStep)
	if err != nil {
		return answer{}, err
	}
	var result *string
	if body != nil {
		text := string(body)
		result = &text
	}
	return done, a.options.Workflows.Finish(r.Context(), r.user, id, result)
}

// cancelRuns cancels listed runs, or else matching ones, or else all. Without count, a request
// with a body cancels all, others up to 100 (contract, workflows D 8).
func (a *api) cancelRuns(r *request) (answer, error) {
	call, err := r.bulkCall("workflowRunIds")
	if err != nil {
		return answer{}, err
	}
	filter, err := wire.LiveRuns(call.params)
	if err != nil {
		return answer{}, err
	}
	count := wire.Count{Default: 100}
	if call.hasBody {
		count.Default = 0
	}
	limit, err := count.Read(call.params)
	if err != nil {
		return answer{}, err
	}
	var cancelled int
	switch {
	case call.async:
		return a.startAction(r, posthaste.ActionCancelRuns, call.params, filter, posthaste.Overrides{})
	case call.ids != nil:
		cancelled, err = a.options.Workflows.CancelIDs(r.Context(), r.user, call.ids)
	default:
		cancelled, err = a.options.Workflows.CancelMatching(r.Context(), r.user, store.RunsMatching(&filter), limit)
	}
	return ok(cancelledView{cancelled}), err
}
