package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"posthaste/internal/client"
)

// actionsCommand is about bulk changes that run in the background.
type actionsCommand struct {
	List   listActionsCommand  `cmd:"" help:"List the bulk actions of the last week."`
	Cancel cancelActionCommand `cmd:"" help:"Cancel a bulk action. Changes already made are kept."`
}

// pathsOfActions are where actions are: those on messages, and those on runs.
var pathsOfActions = []string{"/v2/bulkActions", "/v2/workflows/bulkActions"}

// listedAction is what is shown of an action.
type listedAction struct {
	ID          string     `json:"actionId"`
	Kind        string     `json:"kind"`
	State       string     `json:"state"`
	Total       int        `json:"total"`
	Processed   int        `json:"processed"`
	Failed      int        `json:"failed"`
	CreatedAt   int64      `json:"createdAt"`   // Unix ms
	CompletedAt int64      `json:"completedAt"` // Unix ms
	Filter      url.Values `json:"filter"`
}

// listActionsCommand lists the actions on messages and those on runs.
type listActionsCommand struct {
	listOutput
	connection
}

// Run prints the actions, the latest first.
func (c *listActionsCommand) Run(t terminal) error {
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		all := list{output: c.Output, name: "bulkActions", table: actionTable}
		return all.write(t, latestActions(ctx, server))
	})
}

// latestActions yields all actions, the latest first.
func latestActions(ctx context.Context, server *client.Client) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		var all []json.RawMessage
		for _, path := range pathsOfActions {
			var some []json.RawMessage
			if err := server.Do(ctx, client.Request{Path: path}, &some); err != nil {
				yield(nil, err)
				return
			}
			all = append(all, some...)
		}
		slices.SortStableFunc(all, func(a, b json.RawMessage) int { return cmp.Compare(beganAt(b), beganAt(a)) })
		for _, action := range all {
			if !yield(action, nil) {
				return
			}
		}
	}
}

// beganAt returns when an action began, 0 if it does not say.
func beganAt(action json.RawMessage) int64 {
	var began struct {
		At int64 `json:"createdAt"`
	}
	_ = json.Unmarshal(action, &began) // printing it reports the error
	return began.At
}

var actionTable = tableOf(columns{
	{"STARTED", len(tableTime)},
	{"ACTION", 29},
	{"KIND", 7},
	{"STATE", 11},
	{"DONE", 9},
	{"FAILED", 9},
	{"TOTAL", 9},
	{name: "FILTER"},
}, func(a listedAction) []cell {
	return []cell{
		at(a.CreatedAt), {text: a.ID}, {text: a.Kind}, inState(a.State), {text: strconv.Itoa(a.Processed)},
		{text: strconv.Itoa(a.Failed)}, {text: strconv.Itoa(a.Total)}, {text: a.Filter.Encode()},
	}
})

// cancelActionCommand ends an action.
type cancelActionCommand struct {
	ID string `arg:"" help:"Action ID."`
	oneOutput
	connection
}

// Run ends the action wherever it is: its id does not tell whether it is on messages or on
// runs.
func (c *cancelActionCommand) Run(t terminal) (err error) {
	for _, path := range pathsOfActions {
		request := client.Request{Method: http.MethodDelete, Path: path + "/" + url.PathEscape(c.ID)}
		err = c.show(t, request, c.Output, printAction)
		if refused, ok := errors.AsType[*client.StatusError](err); !ok || refused.Status != http.StatusNotFound {
			return err
		}
	}
	return err
}

var printAction = fieldsOf(func(a listedAction) []field {
	return []field{
		{"action", a.ID},
		{"kind", a.Kind},
		{"state", a.State},
		{"started", at(a.CreatedAt).text},
		{"ended", at(a.CompletedAt).text},
		{"done", fmt.Sprintf("%d of %d", a.Processed, a.Total)},
		{"failed", strconv.Itoa(a.Failed)},
		{"filter", a.Filter.Encode()},
	}
})
