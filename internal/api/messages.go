package api

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// Messages reads and cancels messages.
type Messages interface {
	Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error)
	// Cancel returns the number of changed messages.
	Cancel(ctx context.Context, user string, ids []posthaste.MessageID) (int, error)
	// CancelMatching cancels up to limit messages (0 = all) and returns their number.
	CancelMatching(ctx context.Context, user string, query store.LiveQuery, limit int) (int, error)
	// RunNow makes a message due now.
	RunNow(ctx context.Context, user string, id posthaste.MessageID) error
}

// getMessage shows a message. Cancelled ones are not shown, other ended ones until retention
// removes them.
func (a *api) getMessage(r *request, id posthaste.MessageID) (answer, error) {
	return r.readOne(func() (view any, size int, err error) {
		status, err := a.options.Engine.Message(r.Context(), r.user, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && status.State == posthaste.StateCancelled {
			return nil, 0, noMessage(id.String())
		}
		if err != nil {
			return nil, 0, err
		}
		return newMessageView(status.Message, wholeBody), store.MessageSize(status.Message), nil
	})
}

// cancelledView has only integers, because an SDK decodes it into a map of them.
type cancelledView struct {
	Cancelled int `json:"cancelled"`
}

// cancelMessage cancels a message that has not ended.
func (a *api) cancelMessage(r *request, id posthaste.MessageID) (answer, error) {
	cancelled, err := a.options.Engine.Cancel(r.Context(), r.user, []posthaste.MessageID{id})
	if err != nil {
		return answer{}, err
	}
	if cancelled == 0 {
		return answer{}, a.explainNotCancelled(r, id)
	}
	return ok(cancelledView{cancelled}), nil
}

// explainNotCancelled returns the error about a message that cannot be cancelled. One of an
// active run ends with its run.
func (a *api) explainNotCancelled(r *request, id posthaste.MessageID) error {
	status, err := a.options.Engine.Message(r.Context(), r.user, id)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case err != nil, status.Message.Run == nil, status.State.Terminal():
		return posthaste.Errorf(posthaste.CodeNotFound, "message %s is not known, has ended, or was cancelled", id)
	}
	run := status.Message.Run.ID
	return posthaste.Invalidf("message %s belongs to workflow run %.200q and cannot be cancelled on its own: DELETE /v2/workflows/runs/%s cancels the run",
		id, run, url.PathEscape(run))
}

type runNowView struct {
	MessageID string `json:"messageId"`
}

// runMessageNow makes a waiting message due now (contract, decision 36).
func (a *api) runMessageNow(r *request, id posthaste.MessageID) (answer, error) {
	err := a.options.Engine.RunNow(r.Context(), r.user, id)
	if errors.Is(err, store.ErrNotFound) {
		err = posthaste.Errorf(posthaste.CodeNotFound, "message %s is not known, or has ended", id)
	}
	return ok(runNowView{id.String()}), err
}

// cancelCount limits a bulk cancellation (contract, messages 2.5).
var cancelCount = wire.Count{Most: 500}

// addedCount is a count that an SDK always adds though it promises to cancel all; it is ignored
// (contract, decision 28).
const addedCount = "100"

// cancelMessages cancels listed messages or else matching ones or else all.
func (a *api) cancelMessages(r *request) (answer, error) {
	call, err := r.bulkCall("messageIds")
	if err != nil {
		return answer{}, err
	}
	if slices.Equal(call.params["count"], []string{addedCount}) {
		delete(call.params, "count")
	}
	filter, err := wire.Live(call.params)
	if err != nil {
		return answer{}, err
	}
	limit, err := cancelCount.Read(call.params)
	if err != nil {
		return answer{}, err
	}
	var cancelled int
	switch {
	case call.async:
		return a.startAction(r, posthaste.ActionCancel, call.params, filter, posthaste.Overrides{})
	case call.ids != nil:
		cancelled, err = a.cancelListed(r, call.ids)
	default:
		cancelled, err = a.options.Engine.CancelMatching(r.Context(), r.user, store.LiveMatching(&filter), limit)
	}
	return ok(cancelledView{cancelled}), err
}

// cancelListed cancels messages and ignores invalid ids.
func (a *api) cancelListed(r *request, texts []string) (cancelled int, err error) {
	ids := make([]posthaste.MessageID, 0, len(texts))
	for _, text := range texts {
		if id, err := posthaste.ParseMessageID(text); err == nil {
			ids = append(ids, id)
		}
	}
	for some := range slices.Chunk(ids, atOnce) {
		n, err := a.options.Engine.Cancel(r.Context(), r.user, some)
		if cancelled += n; err != nil {
			return cancelled, err
		}
	}
	return cancelled, nil
}

// refuseEmptyID rejects a request that lost its id, which must not select everything (contract,
// U-28).
func refuseEmptyID(r *request) (answer, error) {
	return answer{}, posthaste.Invalidf("the id is empty, write %s %s<id>", r.Method, r.target.path)
}

// messageID returns the id in the path; invalid text names no message.
func (r *request) messageID() (posthaste.MessageID, error) {
	text := chi.URLParamFromCtx(r.Context(), "id")
	id, err := posthaste.ParseMessageID(text)
	if err != nil {
		return posthaste.MessageID{}, noMessage(text)
	}
	return id, nil
}

func noMessage(id string) error {
	return posthaste.Errorf(posthaste.CodeNotFound, "message %.100q is not known", id)
}
