package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"posthaste"
	"posthaste/internal/client"
)

// runsCommand is about the runs of workflows.
type runsCommand struct {
	List   listRunsCommand         `cmd:"" help:"List runs."`
	Show   showRunCommand          `cmd:"" help:"Show a run and its steps."`
	Cancel cancelCommand[liveRuns] `cmd:"" set:"thing=run" help:"Cancel runs."`
}

// listRunsCommand lists runs. Its filters are those of GET /v2/workflows/logs.
type listRunsCommand struct {
	WorkflowRunID     []string `group:"filter" param:"workflowRunId" env:"-" sep:"none" placeholder:"ID" help:"Runs with an ID. A filter given more than once matches any of its values."`
	WorkflowURL       []string `group:"filter" param:"workflowUrl" env:"-" sep:"none" placeholder:"URL" help:"Runs of the workflow at a URL."`
	State             []string `group:"filter" param:"state" env:"-" sep:"none" placeholder:"STATE" help:"Runs in a state: RUN_STARTED, RUN_SUCCESS, RUN_FAILED or RUN_CANCELED."`
	MessageID         []string `group:"filter" param:"messageId" env:"-" sep:"none" placeholder:"ID" help:"The run that a message belongs to."`
	Host              []string `group:"filter" param:"host" env:"-" sep:"none" placeholder:"HOST" help:"Runs of workflows at a host, with or without port."`
	Path              []string `group:"filter" param:"path" env:"-" sep:"none" placeholder:"PATH" help:"Runs of workflows at a path."`
	WorkflowCreatedAt []string `group:"filter" param:"workflowCreatedAt" env:"-" sep:"none" placeholder:"MS" help:"Runs created at exactly this time, in Unix milliseconds: tells apart runs that reused an ID."`

	commonFilters `kong:"set='things=Runs',set='made=Runs triggered',set='timed=Runs created'"`
	listing
}

// Run prints the runs.
func (c *listRunsCommand) Run(t terminal) error {
	for i, state := range c.State { // as for messages: failed is RUN_FAILED
		if state = strings.ToUpper(state); !strings.HasPrefix(state, "RUN_") && !strings.HasPrefix(state, "STEP_") {
			state = "RUN_" + state
		}
		c.State[i] = state
	}
	request := client.Request{Path: "/v2/workflows/logs", Query: c.withoutBodies(params(c))}
	return c.print(t, request, "runs", runTable)
}

// showRunCommand shows the runs that have one id: it may have been used again.
type showRunCommand struct {
	ID string `arg:"" help:"Run ID."`
	oneOutput
	connection
}

// Run prints the runs, the latest first.
func (c *showRunCommand) Run(t terminal) error {
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		var found []json.RawMessage
		from := source{server: server, request: client.Request{Path: "/v2/workflows/logs", Query: url.Values{"workflowRunId": {c.ID}}}, name: "runs"}
		for run, err := range from.values(ctx) {
			if err != nil {
				return err
			}
			found = append(found, run)
		}
		if len(found) == 0 {
			return posthaste.Errorf(posthaste.CodeNotFound, "there is no workflow run with the id %.200q", c.ID)
		}
		if c.Output == "json" {
			return writeJSON(t.Out, map[string]any{"runs": found})
		}
		for i, run := range found {
			if i > 0 {
				_ = writeLine(t.Out, "")
			}
			if err := printRun(t, run, func(run listedRun) ([]runEvent, error) { return eventsOf(ctx, server, run) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// liveRuns are runs that have not ended. Their filters are those of DELETE /v2/workflows/runs.
type liveRuns struct {
	WorkflowURL      string `group:"filter" param:"workflowUrl" env:"-" placeholder:"URL" help:"Runs of workflows whose URL starts with a prefix."`
	WorkflowURLExact bool   `group:"filter" param:"workflowUrlExactMatch" env:"-" name:"exact" help:"Match --workflow-url as the whole URL, not as a prefix."`

	commonFilters `kong:"set='things=Runs',set='made=Runs triggered',set='timed=Runs created'"`
}

func (liveRuns) cancellation() cancellation {
	return cancellation{"run", "/v2/workflows/runs", "workflowRunIds", "1000", "not known, or ended"}
}
