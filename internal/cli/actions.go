package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"posthaste/internal/client"
)

// actionsCommand is about bulk changes that run in the background.
type actionsCommand struct {
	List   listThings[actions] `cmd:"" help:"List the bulk actions of the last week."`
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

// actions are those on messages and those on runs.
type actions struct{}

func (actions) kind() kind {
	return kind{thing: "bulk action", paths: pathsOfActions, list: "bulkActions", id: "actionId", since: "createdAt", table: actionTable, print: printAction}
}

var actionTable = tableOf(columns{
	{"STARTED", ofTime},
	{"ACTION", 29},
	{"KIND", 7},
	{"STATE", 11},
	{name: "PROGRESS"},
}, func(a listedAction) []cell {
	progress := fmt.Sprintf("%d of %d", a.Processed, a.Total)
	if a.Failed > 0 {
		progress += fmt.Sprintf(", %d failed", a.Failed)
	}
	return []cell{at(a.CreatedAt), {text: a.ID}, {text: a.Kind}, inState(a.State), {text: strings.TrimSpace(progress + "  " + a.Filter.Encode())}}
})

// cancelActionCommand ends an action.
type cancelActionCommand struct {
	ID string `arg:"" help:"Action ID."`
	oneOutput
	connection
}

// Run ends the action wherever it is: its id does not show whether it is on messages or on
// runs.
func (c *cancelActionCommand) Run(t terminal) (err error) {
	for _, path := range pathsOfActions {
		request := client.Request{Method: http.MethodDelete, Path: path + "/" + url.PathEscape(c.ID)}
		err = c.show(t, request, c.Output, printAction)
		if !isNotFound(err) {
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
