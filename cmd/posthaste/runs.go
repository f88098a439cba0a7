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
	WorkflowRunID     []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Runs with an ID. A filter given more than once matches any of its values."`
	WorkflowURL       []string `group:"filter" env:"-" sep:"none" placeholder:"URL" help:"Runs of the workflow at a URL."`
	State             []string `group:"filter" env:"-" sep:"none" placeholder:"STATE" help:"Runs in a state: RUN_STARTED, RUN_SUCCESS, RUN_FAILED or RUN_CANCELED."`
	MessageID         []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"The run that a message belongs to."`
	Host              []string `group:"filter" env:"-" sep:"none" placeholder:"HOST" help:"Runs of workflows at a host, with or without port."`
	Path              []string `group:"filter" env:"-" sep:"none" placeholder:"PATH" help:"Runs of workflows at a path."`
	Label             []string `group:"filter" env:"-" sep:"none" placeholder:"LABEL" help:"Runs with a label."`
	CallerIP          []string `group:"filter" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"Runs triggered from an IP address."`
	FlowControlKey    []string `group:"filter" env:"-" sep:"none" placeholder:"KEY" help:"Runs with a flow-control key."`
	WorkflowCreatedAt []string `group:"filter" env:"-" sep:"none" placeholder:"MS" help:"Runs created at exactly this time, in Unix milliseconds: tells apart runs that reused an ID."`
	FromDate          moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs created at or after a time: Unix milliseconds, 2006-01-02 15:04 (local time), 2006-01-02T15:04:05Z, or an age such as 15m or 2d."`
	ToDate            moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs created at or before a time."`

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
	filter := url.Values{}
	setAll(filter, map[string][]string{
		"workflowRunId": c.WorkflowRunID, "workflowUrl": c.WorkflowURL, "state": c.State, "label": c.Label,
		"messageId": c.MessageID, "host": c.Host, "path": c.Path,
		"callerIp": c.CallerIP, "flowControlKey": c.FlowControlKey, "workflowCreatedAt": c.WorkflowCreatedAt,
		"fromDate": c.FromDate.values(), "toDate": c.ToDate.values(),
	})
	request := client.Request{Path: "/v2/workflows/logs", Query: c.params(filter)}
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

	WorkflowURL      string   `group:"filter" env:"-" placeholder:"URL" help:"Runs of workflows whose URL starts with a prefix."`
	WorkflowURLExact bool     `group:"filter" env:"-" name:"exact" help:"Match --workflow-url as the whole URL, not as a prefix."`
	Label            []string `group:"filter" env:"-" sep:"none" placeholder:"LABEL" help:"Runs with a label."`
	CallerIP         []string `group:"filter" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"Runs triggered from an IP address."`
	FlowControlKey   []string `group:"filter" env:"-" sep:"none" placeholder:"KEY" help:"Runs with a flow-control key."`
	FromDate         moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs created at or after a time."`
	ToDate           moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs created at or before a time."`
	All              bool     `env:"-" help:"Select every run. Required if neither IDs nor a filter are given."`
	oneOutput
	connection
}

func (c *cancelRunsCommand) filter() url.Values {
	filter := url.Values{}
	setIf(filter, "workflowUrl", c.WorkflowURL)
	if c.WorkflowURLExact {
		filter.Set("workflowUrlExactMatch", "true")
	}
	setAll(filter, map[string][]string{
		"label": c.Label, "callerIp": c.CallerIP, "flowControlKey": c.FlowControlKey,
		"fromDate": c.FromDate.values(), "toDate": c.ToDate.values(),
	})
	return filter
}

// Validate returns a sentence about the first setting that is wrong.
func (c *cancelRunsCommand) Validate() error {
	if err := selectionOf(len(c.IDs) > 0, len(c.filter()) > 0, c.All); err != nil {
		return err
	}
	return c.check()
}

// Run cancels the runs, a thousand at a time, and tells how many there were.
func (c *cancelRunsCommand) Run(t terminal) error {
	request := client.Request{Method: http.MethodDelete, Path: "/v2/workflows/runs", Query: c.filter()}
	if len(c.IDs) > 0 {
		request.Body = map[string]any{"workflowRunIds": c.IDs}
	} else {
		request.Query.Set("count", "1000")
	}
	cancelling := cancellation{"run", countIDs(c.IDs), "not known, or ended"}
	return cancelling.run(t, &c.connection, request, c.Output)
}
