package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// DeadLetters manages dead letters.
type DeadLetters interface {
	DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error)
	DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error)
	// DeleteDeadLetters returns the removed ids. It may stop early, see store.Store.
	DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error)
	// CheckOverrides returns an Error about overrides that every retry would reject.
	CheckOverrides(o posthaste.Overrides) error
	// RetryDeadLetters skips unknown ids, and may stop early like DeleteDeadLetters.
	RetryDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, o posthaste.Overrides) ([]store.Retried, error)
}

// listDeadLetters shows a page of the DLQ (contract, messages 2.9), or of failed runs if
// requested.
func (a *api) listDeadLetters(r *request, params url.Values) (answer, error) {
	if ofWorkflows, err := wire.OfWorkflows(params); ofWorkflows && err == nil {
		return a.listFailedRuns(r, params)
	}
	selected, err := wire.DeadLetters(params, dlqCount)
	if err != nil {
		return answer{}, err
	}
	return r.page("messages", func(add func(any)) (cursor string, err error) {
		read, err := a.options.Engine.DeadLetters(r.Context(), r.user, selected.DeadLetters())
		for _, d := range read.DeadLetters {
			add(newDeadLetterView(d, bodyLimit(selected.BodyLimit)))
		}
		return cursorOf(read.More, read.Next), err
	})
}

// cursorOf returns the cursor of a page, "" for the last.
func cursorOf(more bool, next posthaste.Position) string {
	if !more {
		return ""
	}
	return wire.Cursor(next)
}

// deadLetterView is a dead letter as shown: a message and its last response.
type deadLetterView struct {
	DLQID string `json:"dlqId"`
	messageView
	FailedAt           int64       `json:"failedAt"` // Unix ms
	Error              string      `json:"error,omitempty"`
	ResponseStatus     int         `json:"responseStatus"` // 0 without a response
	ResponseHeader     http.Header `json:"responseHeader,omitempty"`
	ResponseBody       string      `json:"responseBody,omitempty"`       // if it is text
	ResponseBodyBase64 string      `json:"responseBodyBase64,omitempty"` // if it is not
	ResponseTruncated  bool        `json:"responseTruncated,omitempty"`  // larger than what is stored
}

func newDeadLetterView(d *posthaste.DeadLetter, limit bodyLimit) deadLetterView {
	view := deadLetterView{
		DLQID:       d.ID.String(),
		messageView: newMessageView(d.Message, limit),
		FailedAt:    d.FailedAt().UnixMilli(),
		Error:       d.Error,
	}
	if d.Response != nil {
		view.ResponseStatus, view.ResponseHeader = d.Response.Status, posthaste.HeaderInJSON(d.Response.Header)
		view.ResponseBody, view.ResponseBodyBase64 = limit.textOrBase64(d.Response.Body)
		view.ResponseTruncated = d.Response.Truncated
	}
	return view
}

func (a *api) getDeadLetter(r *request, id posthaste.DeadLetterID) (answer, error) {
	return r.readOne(func() (view any, size int, err error) {
		d, err := a.options.Engine.DeadLetter(r.Context(), r.user, id)
		if err != nil {
			return nil, 0, a.orNoDeadLetter(r, err, id)
		}
		return newDeadLetterView(d, wholeBody), store.DeadLetterSize(d), nil
	})
}

// retryDeadLetter retries a dead letter, with overrides from control headers.
func (a *api) retryDeadLetter(r *request, id posthaste.DeadLetterID) (answer, error) {
	_, overrides, err := a.decodeOverrides(r)
	if err != nil {
		return answer{}, err
	}
	var page retriedPage
	err = r.withReservation(func() (err error) {
		page, _, err = a.retry(r, []posthaste.DeadLetterID{id}, true, overrides)
		return err
	})
	if err == nil {
		err = page.noneRetried()
	}
	if err != nil {
		return answer{}, err
	}
	if len(page.Responses) == 0 {
		return answer{}, a.orNoDeadLetter(r, store.ErrNotFound, id)
	}
	return answer{http.StatusCreated, page.Responses[0]}, nil
}

// decodeOverrides returns the overrides and their controls.
func (a *api) decodeOverrides(r *request) (wire.Controls, posthaste.Overrides, error) {
	c, err := r.knownControls()
	if err != nil {
		return c, posthaste.Overrides{}, err
	}
	overrides, err := a.decoder.Overrides(c)
	return c, overrides, err
}

// dlqID reads the id in the path; unknown is the error about invalid text.
func dlqID(unknown func(text string) error) func(r *request) (posthaste.DeadLetterID, error) {
	return func(r *request) (posthaste.DeadLetterID, error) {
		text := r.pathText("id")
		id, ok := posthaste.ParseDeadLetterID(text)
		if !ok {
			return 0, unknown(text)
		}
		return id, nil
	}
}

func noDeadLetter(id string) error {
	return posthaste.Errorf(posthaste.CodeNotFound, "dead letter %.100q is not known", id)
}

// orNoDeadLetter replaces ErrNotFound by an error that says whether the id is of a failed run.
func (a *api) orNoDeadLetter(r *request, err error, id posthaste.DeadLetterID) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	runs, err := a.options.Workflows.Failed(r.Context(), r.user, oneFailedRun(id))
	if err != nil {
		return err
	}
	if len(runs.Runs) == 0 {
		return noDeadLetter(id.String())
	}
	return posthaste.Errorf(posthaste.CodeNotFound, "dead letter %s belongs to a workflow run, not to a message: use /v2/workflows/dlq", id)
}
