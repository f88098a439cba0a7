package main

import (
	"encoding/json"
	"net/http"
	"net/url"

	"posthaste"
	"posthaste/internal/client"
)

// runsCommand is about the runs of workflows.
type runsCommand struct {
	List   listRunsCommand   `cmd:"" help:"List runs."`
	Show   showRunCommand    `cmd:"" help:"Show a run and its steps."`
	Cancel cancelRunsCommand `cmd:"" help:"Cancel runs."`
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

	commonFilters `set:"things=Runs" set:"made=Runs triggered" set:"timed=Runs created"`
	listing
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *listRunsCommand) Validate() error {
	if err := c.listing.check(); err != nil {
		return err
	}
	return c.connection.check()
}

// Run prints the runs.
func (c *listRunsCommand) Run(t terminal) error {
	server, err := c.open(t)
	if err != nil {
		return err
	}
	request := client.Request{Path: "/v2/workflows/logs", Query: c.withoutBodies(params(c))}
	return c.listing.print(t, server, request, "runs", newRunTable)
}

// showRunCommand shows the runs that have one id: it may have been used again.
type showRunCommand struct {
	ID string `arg:"" help:"Run ID."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *showRunCommand) Validate() error { return c.check() }

// Run prints the runs, the latest first.
func (c *showRunCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := c.open(t)
	if err != nil {
		return err
	}
	var found []json.RawMessage
	request := client.Request{Path: "/v2/workflows/logs", Query: url.Values{"workflowRunId": {c.ID}}}
	for run, err := range values(server.Pages(ctx, request), "runs") {
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
	for _, run := range found {
		if err := printRun(t.Out, hasColours(t.Out), run); err != nil {
			return err
		}
	}
	return nil
}

// cancelRunsCommand cancels runs that have not ended. Its filters are those of DELETE
// /v2/workflows/runs.
type cancelRunsCommand struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Run IDs."`

	WorkflowURL      string `group:"filter" param:"workflowUrl" env:"-" placeholder:"URL" help:"Runs of workflows whose URL starts with a prefix."`
	WorkflowURLExact bool   `group:"filter" param:"workflowUrlExactMatch" env:"-" name:"exact" help:"Match --workflow-url as the whole URL, not as a prefix."`

	commonFilters `set:"things=Runs" set:"made=Runs triggered" set:"timed=Runs created"`
	All           bool `env:"-" help:"Select every run. Required if neither IDs nor a filter are given."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *cancelRunsCommand) Validate() error {
	if err := selectionOf(len(c.IDs) > 0, len(params(c)) > 0, c.All); err != nil {
		return err
	}
	return c.check()
}

// Run cancels the runs, a thousand at a time, and tells how many there were.
func (c *cancelRunsCommand) Run(t terminal) error {
	request := client.Request{Method: http.MethodDelete, Path: "/v2/workflows/runs", Query: params(c)}
	if len(c.IDs) > 0 {
		request.Body = map[string]any{"workflowRunIds": c.IDs}
	} else {
		request.Query.Set("count", "1000")
	}
	cancelling := cancellation{"run", countIDs(c.IDs), "not known, or ended"}
	return cancelling.run(t, &c.connection, request, c.Output)
}
