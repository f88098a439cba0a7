package api

import (
	"errors"

	"github.com/go-chi/chi/v5"

	"posthaste"
	"posthaste/internal/store"
)

// getMessage shows a message. One that was cancelled does not exist any more;
// other ended ones stay until retention removes them.
func (a *api) getMessage(r *request) (answer, error) {
	id, err := r.messageID()
	if err != nil {
		return answer{}, err
	}
	status, err := a.options.Engine.Message(r.Context(), r.user, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && status.State == posthaste.StateCancelled {
		return answer{}, noMessage(id.String())
	}
	if err != nil {
		return answer{}, err
	}
	return ok(newMessageView(status.Message)), nil
}

// cancelledView is the answer to a cancellation. It has only integers: one SDK
// reads it into a map of them.
type cancelledView struct {
	Cancelled int `json:"cancelled"`
}

// cancelMessage cancels a message that has not ended.
func (a *api) cancelMessage(r *request) (answer, error) {
	id, err := r.messageID()
	if err != nil {
		return answer{}, err
	}
	cancelled, err := a.options.Engine.Cancel(r.Context(), r.user, []posthaste.MessageID{id})
	if err != nil {
		return answer{}, err
	}
	if cancelled == 0 {
		return answer{}, posthaste.Errorf(posthaste.CodeNotFound, "message %s is not known, or it has ended or was cancelled before", id)
	}
	return ok(cancelledView{cancelled}), nil
}

// refuseEmptyID answers a request for a single message that lost its id, which
// must not become one for all messages (contract, U-28).
func refuseEmptyID(*request) (answer, error) {
	return answer{}, posthaste.Invalidf("the message id is empty, write DELETE /v2/messages/<id>")
}

// messageID returns the id in the path. A text that is no id names no message.
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
