package main

import (
	"encoding/json"
	"net/http"
	"net/url"

	"posthaste"
	"posthaste/internal/client"
)

// dlqCommand is about the failed runs of workflows.
type dlqCommand struct {
	List    listFailedCommand    `cmd:"" help:"List failed runs."`
	Show    showFailedCommand    `cmd:"" help:"Show why a run failed."`
	Restart restartFailedCommand `cmd:"" help:"Start failed runs anew, from their beginning."`
	Resume  resumeFailedCommand  `cmd:"" help:"Start failed runs anew, from the step that failed."`
	Delete  deleteFailedCommand  `cmd:"" help:"Delete failed runs from the DLQ."`
}

// pathDLQ is the DLQ of runs.
const pathDLQ = "/v2/workflows/dlq"

// failedFilter are the filters of the DLQ of runs (contract, workflows 6.4).
type failedFilter struct {
	WorkflowRunID        []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Runs whose ids begin so. Any filter can be given more than once, for runs that match one of the values."`
	WorkflowURL          []string `group:"filter" env:"-" sep:"none" placeholder:"URL" help:"Runs of the workflow at a URL."`
	Label                []string `group:"filter" env:"-" sep:"none" placeholder:"LABEL" help:"Runs with a label."`
	ResponseStatus       []string `group:"filter" env:"-" sep:"none" placeholder:"STATUS" help:"Runs that failed with a status, such as 500; 0 is none."`
	FailureFunctionState []string `group:"filter" env:"-" sep:"none" placeholder:"STATE" help:"Runs whose failure function is in a state, such as CALLBACK_FAIL."`
	CallerIP             []string `group:"filter" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"Runs triggered from an address."`
	FlowControlKey       []string `group:"filter" env:"-" sep:"none" placeholder:"KEY" help:"Runs under a flow-control key."`
	FromDate             moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs that failed since a time: Unix milliseconds, 2006-01-02T15:04:05Z, or how long ago, such as 15m or 2d."`
	ToDate               moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs that failed until a time."`
}

func (f *failedFilter) params() url.Values {
	params := url.Values{}
	setAll(params, map[string][]string{
		"workflowRunId": f.WorkflowRunID, "workflowUrl": f.WorkflowURL, "label": f.Label,
		"responseStatus": f.ResponseStatus, "failureFunctionState": f.FailureFunctionState,
		"callerIp": f.CallerIP, "flowControlKey": f.FlowControlKey,
		"fromDate": f.FromDate.values(), "toDate": f.ToDate.values(),
	})
	return params
}

// listFailedCommand lists failed runs.
type listFailedCommand struct {
	failedFilter
	listing
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *listFailedCommand) Validate() error {
	if err := c.listing.check(); err != nil {
		return err
	}
	return c.connection.check()
}

// Run prints the entries of the DLQ.
func (c *listFailedCommand) Run(t terminal) error {
	server, err := c.open(t)
	if err != nil {
		return err
	}
	request := client.Request{Path: pathDLQ, Query: c.listing.params(c.failedFilter.params())}
	return c.print(t, server, request, "messages", newFailedTable)
}

// showFailedCommand shows one failed run.
type showFailedCommand struct {
	ID     string `arg:"" help:"The id of the entry in the DLQ."`
	Output string `env:"-" default:"table" enum:"table,json" help:"How it is written: table or json."`
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *showFailedCommand) Validate() error { return c.check() }

// Run prints the entry.
func (c *showFailedCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := c.open(t)
	if err != nil {
		return err
	}
	var entry json.RawMessage
	if err := server.Do(ctx, client.Request{Path: pathDLQ + "/" + url.PathEscape(c.ID)}, &entry); err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(t.Out, entry)
	}
	return printFailed(t.Out, entry)
}

// selected are the failed runs that a command is about.
type selected struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of entries of the DLQ."`
	failedFilter
	All    bool   `env:"-" help:"Every failed run. Without ids or a filter, this is required."`
	Cursor string `env:"-" placeholder:"CURSOR" help:"Go on where an earlier command was interrupted."`
	DryRun bool   `env:"-" help:"Change nothing, and tell how many runs it would be."`
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (s *selected) Validate() error {
	if err := selectionOf(len(s.IDs) > 0, len(s.params()) > 0, s.All); err != nil {
		return err
	}
	return s.check()
}

// selectionOf returns a sentence about what a command is to change if that is not
// clear: ids, or a filter, or everything.
func selectionOf(ids, filter, all bool) error {
	switch {
	case ids && (filter || all):
		return posthaste.Invalidf("ids do not go with a filter or --all: give one of them")
	case filter && all:
		return posthaste.Invalidf("--all does not go with a filter: give one of them")
	case !ids && !filter && !all:
		return posthaste.Invalidf("nothing is selected: give ids, a filter, or --all")
	}
	return nil
}

// request returns the request for a method and a path below the DLQ. A sweep begins
// with the oldest failure.
func (s *selected) request(method, path string) client.Request {
	request := client.Request{Method: method, Path: pathDLQ + path, Query: s.params()}
	setIf(request.Query, "cursor", s.Cursor)
	if len(s.IDs) > 0 {
		request.Body = map[string]any{"dlqIds": s.IDs}
	}
	return request
}

// overrides are what runs are started with instead of what they were triggered with
// (contract, workflows 7.2).
type overrides struct {
	Delay            string   `group:"override" env:"-" name:"with-delay" placeholder:"SPAN" help:"Begin so much later, such as 10m."`
	Retries          string   `group:"override" env:"-" name:"with-retries" placeholder:"N" help:"How often a failed delivery is tried again."`
	RetryDelay       string   `group:"override" env:"-" name:"with-retry-delay" placeholder:"EXPR" help:"The time before a retry in milliseconds, such as 1000 * pow(2, retried)."`
	FlowControlKey   string   `group:"override" env:"-" name:"with-flow-control-key" placeholder:"KEY" help:"The flow-control key."`
	FlowControlValue string   `group:"override" env:"-" name:"with-flow-control-value" placeholder:"VALUE" help:"Its limits, such as parallelism=5,rate=10."`
	Label            []string `group:"override" env:"-" name:"with-label" sep:"none" placeholder:"LABEL" help:"The label; it can be given more than once."`
	FailureCallback  string   `group:"override" env:"-" name:"with-failure-callback" placeholder:"URL" help:"Where a further failure is told."`
}

func (o *overrides) header() http.Header {
	header := http.Header{}
	for name, value := range map[string]string{
		"Delay": o.Delay, "Retries": o.Retries, "Retry-Delay": o.RetryDelay,
		"Flow-Control-Key": o.FlowControlKey, "Flow-Control-Value": o.FlowControlValue,
		"Failure-Callback": o.FailureCallback,
	} {
		if value != "" {
			header.Set("Service-"+name, value)
		}
	}
	for _, label := range o.Label {
		header.Add("Service-Label", label)
	}
	return header
}

// startCommand starts failed runs anew.
type startCommand struct {
	selected
	overrides
	Output string `env:"-" default:"table" enum:"table,json,ndjson" help:"How the new runs are written: table, json for one document, or ndjson for one JSON value a line."`
}

func (c *startCommand) start(t terminal, path, done string) error {
	request := c.request(http.MethodPost, path)
	request.Header = c.header()
	return c.sweep(t, request, done, c.Output)
}

type restartFailedCommand struct{ startCommand }

// Run restarts the runs.
func (c *restartFailedCommand) Run(t terminal) error { return c.start(t, "/restart", "restarted") }

type resumeFailedCommand struct{ startCommand }

// Run resumes the runs.
func (c *resumeFailedCommand) Run(t terminal) error { return c.start(t, "/resume", "resumed") }

type deleteFailedCommand struct{ selected }

// Run deletes the entries.
func (c *deleteFailedCommand) Run(t terminal) error {
	return c.sweep(t, c.request(http.MethodDelete, ""), "deleted", "")
}
