package api

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// Actions manages bulk actions.
type Actions interface {
	StartAction(ctx context.Context, asked posthaste.BulkAction) (*posthaste.BulkAction, error)
	Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error)
	// CancelAction ends a running action and returns it.
	CancelAction(ctx context.Context, user, id string) (*posthaste.BulkAction, error)
	// Actions returns all actions, oldest first.
	Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error)
}

// atOnce is how many listed things are changed in one commit.
const atOnce = 100

// bulkCall is a call about many things: the listed ones or else the matching ones.
type bulkCall struct {
	ids     []string   // nil: no list
	params  url.Values // the other parameters
	hasBody bool       // sent a body, even an empty one
	async   bool       // in the background
}

// bulkCall reads a bulk call; ids is the name of the list.
func (r *request) bulkCall(ids string) (call bulkCall, err error) {
	if call.params, call.hasBody, err = r.callParameters(ids); err != nil {
		return call, err
	}
	if call.ids, err = wire.IDs(call.params, ids); err != nil {
		return call, err
	}
	call.params = wire.Without(call.params, ids)
	if call.async, err = wire.Flag(call.params, "async"); err != nil {
		return call, err
	}
	if call.async && call.ids != nil {
		return call, posthaste.Invalidf("%s cannot be given with async=true: listed entries are changed at once", ids)
	}
	return call, nil
}

// callParameters returns the parameters of query and JSON body (contract, U-80 and workflows D
// 1), and whether there was a body. ids is the name of a list. A null field has no value; but if
// null is all that was sent, it is an empty list, as SDKs write it.
func (r *request) callParameters(ids string) (params url.Values, hasBody bool, err error) {
	query, err := r.params()
	if err != nil {
		return nil, false, err
	}
	var fields map[string]json.RawMessage
	if hasBody, err = r.decodeJSON(&fields); err != nil {
		return nil, false, err
	}
	if hasBody && fields == nil {
		return nil, false, posthaste.Invalidf("the body is null, an object of filters is expected, or no body")
	}
	alone := len(query)+len(fields) == 1
	body := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := addField(body, name, fields[name], alone); err != nil {
			return nil, false, err
		}
	}
	params, err = wire.Merge(query, body, ids)
	return params, hasBody, err
}

// addField adds a field of the body.
func addField(body url.Values, name string, raw json.RawMessage, alone bool) error {
	if wire.HasPrefixFold(name, wire.UpstashPrefix) || wire.HasPrefixFold(name, wire.ServicePrefix) {
		return posthaste.Invalidf("%.100q has no effect in the body: give settings as headers", name)
	}
	if string(raw) == "null" && !alone {
		body[name] = []string{""} // not an empty list, which selects nothing
		return nil
	}
	values, err := wire.Texts(name, raw)
	switch {
	case err != nil:
		return err
	case raw[0] == '[':
		wire.SetElements(body, name, values)
	default:
		body[name] = values
	}
	return nil
}

// startAction starts a bulk action on what a filter of the parameters matches.
func (a *api) startAction(r *request, kind posthaste.ActionKind, params url.Values, filter posthaste.Filter, overrides posthaste.Overrides) (answer, error) {
	asked, err := wire.Background(params)
	if err != nil {
		return answer{}, err
	}
	action, err := a.options.Engine.StartAction(r.Context(), posthaste.BulkAction{
		User: r.user, Kind: kind, Filter: filter, Overrides: overrides, Asked: asked, CallerIP: a.callerIP(r.Request),
	})
	if err != nil {
		return answer{}, err
	}
	return answer{http.StatusAccepted, struct {
		ActionID string `json:"actionId"`
	}{action.ID}}, nil
}

// actionView is a bulk action as shown (contract, decision 19, with another state).
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
	actionCancelled  actionState = "CANCELED"
)

func actionStateOf(action *posthaste.BulkAction) actionState {
	switch {
	case !action.Finished():
		return actionInProgress
	case action.Cancelled:
		return actionCancelled
	default:
		return actionFinished
	}
}

// failureView is a failed item, with one of the ids.
type failureView struct {
	MessageID string `json:"messageId,omitempty"`
	DLQID     string `json:"dlqId,omitempty"`
	Error     string `json:"error"`
}

// shownKinds are kinds shown under another name: lists are of messages or of runs.
var shownKinds = map[posthaste.ActionKind]posthaste.ActionKind{
	posthaste.ActionCancelRuns: posthaste.ActionCancel,
	posthaste.ActionDeleteRuns: posthaste.ActionDelete,
}

func newActionView(action *posthaste.BulkAction) actionView {
	view := actionView{
		ActionID:    action.ID,
		Kind:        cmp.Or(shownKinds[action.Kind], action.Kind),
		State:       actionStateOf(action),
		Total:       action.Total,
		Processed:   action.Processed,
		Failed:      action.Failed,
		CreatedAt:   action.CreatedAt.UnixMilli(),
		CompletedAt: optionalMillis(action.CompletedAt),
		Filter:      action.Asked,
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

// listActions lists bulk actions on messages or runs, newest first.
func (a *api) listActions(ofRuns bool) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		all, err := a.options.Engine.Actions(r.Context(), r.user)
		all = slices.DeleteFunc(all, func(action *posthaste.BulkAction) bool { return action.Kind.OfRuns() != ofRuns })
		list := views(all, newActionView)
		slices.Reverse(list)
		return ok(list), err
	}
}

func (a *api) getAction(_ *request, action *posthaste.BulkAction) (answer, error) {
	return ok(newActionView(action)), nil
}

// cancelAction ends an action and shows it.
func (a *api) cancelAction(r *request, action *posthaste.BulkAction) (answer, error) {
	ended, err := a.options.Engine.CancelAction(r.Context(), r.user, action.ID)
	if err != nil {
		return answer{}, orNotFound(err, "bulk action", action.ID)
	}
	return ok(newActionView(ended)), nil
}

// actionInPath reads the action in the path, of runs or of messages.
func (a *api) actionInPath(ofRuns bool) func(r *request) (*posthaste.BulkAction, error) {
	return func(r *request) (*posthaste.BulkAction, error) {
		id := r.pathText("id")
		action, err := a.options.Engine.Action(r.Context(), r.user, id)
		if err == nil && action.Kind.OfRuns() != ofRuns {
			err = store.ErrNotFound
		}
		return action, orNotFound(err, "bulk action", id)
	}
}
