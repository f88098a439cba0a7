package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"posthaste"
	"posthaste/internal/selection"
)

// Actions keeps bulk actions.
type Actions interface {
	StartAction(ctx context.Context, asked posthaste.BulkAction) (*posthaste.BulkAction, error)
	Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error)
	// Actions returns all bulk actions, oldest first.
	Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error)
}

// atOnce is how many things that a call lists are changed in one commit.
const atOnce = 100

// bulkCall is a call on many things: those it lists, whatever its filters say, or
// else those that match its filters.
type bulkCall struct {
	ids    []string   // listed; nil if it lists none
	params url.Values // all other parameters
	async  bool       // it is to go on behind the request
}

// bulkCall reads a bulk call whose ids are listed by a parameter of that name.
func (r *request) bulkCall(ids string) (call bulkCall, err error) {
	if call.params, err = r.bulkParameters(); err != nil {
		return call, err
	}
	if call.ids, err = selection.IDs(call.params, ids); err != nil {
		return call, err
	}
	delete(call.params, ids)
	if call.async, err = selection.Flag(call.params, "async"); err != nil {
		return call, err
	}
	if call.async && call.ids != nil {
		return call, posthaste.Invalidf("%s cannot be given with async=true: what is listed is done at once", ids)
	}
	return call, nil
}

// bulkParameters returns what a bulk call says of its targets: the parameters of
// the query, and those of a JSON body that the query does not have (contract,
// U-80). A parameter that the body has without a value is there without one.
func (r *request) bulkParameters() (url.Values, error) {
	params, err := r.params()
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	given, err := r.decodeJSON(&fields)
	if err != nil {
		return nil, err
	}
	if given && fields == nil {
		return nil, posthaste.Invalidf("the body is null, an object of filters is expected, or no body")
	}
	for name, raw := range fields {
		if params.Has(name) {
			continue
		}
		if params[name], err = texts(name, raw); err != nil {
			return nil, err
		}
	}
	return params, nil
}

// startAction begins a bulk action on what the filters of a call match.
func (a *api) startAction(r *request, kind posthaste.ActionKind, params url.Values, overrides http.Header) (answer, error) {
	filter, err := selection.Background(params)
	if err != nil {
		return answer{}, err
	}
	action, err := a.options.Engine.StartAction(r.Context(), posthaste.BulkAction{
		User: r.user, Kind: kind, Filter: filter, Header: overrides, CallerIP: a.callerIP(r.Request),
	})
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusAccepted, struct {
		ActionID string `json:"actionId"`
	}{action.ID}}, nil
}

// actionView is a bulk action as it is read (contract, decision 19).
type actionView struct {
	ActionID    string               `json:"actionId"`
	Kind        posthaste.ActionKind `json:"kind"`
	State       actionState          `json:"state"`
	Total       int                  `json:"total"`
	Processed   int                  `json:"processed"`
	Failed      int                  `json:"failed"`
	Failures    []failureView        `json:"failures"`
	CreatedAt   int64                `json:"createdAt"`             // Unix ms
	CompletedAt int64                `json:"completedAt,omitempty"` // Unix ms
	Filter      url.Values           `json:"filter"`
}

type actionState string

const (
	actionInProgress actionState = "IN_PROGRESS"
	actionFinished   actionState = "FINISHED"
)

// failureView tells of something that could not be changed. It has one of the
// ids.
type failureView struct {
	MessageID string `json:"messageId,omitempty"`
	DLQID     string `json:"dlqId,omitempty"`
	Error     string `json:"error"`
}

func newActionView(action *posthaste.BulkAction) actionView {
	view := actionView{
		ActionID:    action.ID,
		Kind:        action.Kind,
		State:       actionInProgress,
		Total:       action.Total,
		Processed:   action.Processed,
		Failed:      action.Failed,
		CreatedAt:   action.CreatedAt.UnixMilli(),
		CompletedAt: optionalMillis(action.CompletedAt),
		Filter:      action.Filter,
	}
	if action.Finished() {
		view.State = actionFinished
	}
	if view.Filter == nil {
		view.Filter = url.Values{}
	}
	view.Failures = views(action.Failures, func(f posthaste.ActionFailure) failureView {
		if action.Kind == posthaste.ActionCancel {
			return failureView{MessageID: f.ID, Error: f.Error}
		}
		return failureView{DLQID: f.ID, Error: f.Error}
	})
	return view
}

// listActions shows all bulk actions, the latest first.
func (a *api) listActions(r *request) (answer, error) {
	all, err := a.options.Engine.Actions(r.Context(), r.user)
	list := views(all, newActionView)
	slices.Reverse(list)
	return ok(list), err
}

func (a *api) getAction(r *request) (answer, error) {
	id := r.pathText("id")
	action, err := a.options.Engine.Action(r.Context(), r.user, id)
	if err != nil {
		return answer{}, orNotFound(err, "bulk action", id)
	}
	return ok(newActionView(action)), nil
}
