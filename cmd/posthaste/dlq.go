package main

import (
	"net/http"
	"net/url"

	"posthaste/internal/client"
)

// dlqCommand is about what failed for good: runs of workflows, and messages.
type dlqCommand struct {
	List    listFailedCommand    `cmd:"" help:"List failed runs."`
	Show    showFailedCommand    `cmd:"" help:"Show why a run failed."`
	Restart restartFailedCommand `cmd:"" help:"Start failed runs anew, from their beginning."`
	Resume  resumeFailedCommand  `cmd:"" help:"Start failed runs anew, from the step that failed."`
	Delete  deleteFailedCommand  `cmd:"" help:"Delete failed runs from the DLQ."`

	Messages deadLettersCommand `cmd:"" help:"List, show, retry and delete messages that failed for good."`
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
	WorkflowCreatedAt    []string `group:"filter" env:"-" sep:"none" placeholder:"MS" help:"Runs created at a time, in Unix milliseconds: one of several that have had the same id."`
	FromDate             moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs that failed since a time: Unix milliseconds, 2006-01-02T15:04:05Z, or how long ago, such as 15m or 2d."`
	ToDate               moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs that failed until a time."`
}

func (f *failedFilter) params() url.Values {
	params := url.Values{}
	setAll(params, map[string][]string{
		"workflowRunId": f.WorkflowRunID, "workflowUrl": f.WorkflowURL, "label": f.Label,
		"responseStatus": f.ResponseStatus, "failureFunctionState": f.FailureFunctionState,
		"callerIp": f.CallerIP, "flowControlKey": f.FlowControlKey, "workflowCreatedAt": f.WorkflowCreatedAt,
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
	ID string `arg:"" help:"The id of the entry in the DLQ."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *showFailedCommand) Validate() error { return c.check() }

// Run prints the entry.
func (c *showFailedCommand) Run(t terminal) error {
	return showOne(t, &c.connection, pathDLQ, c.ID, c.Output, printFailed)
}

// selectedRuns are the failed runs that a command is about.
type selectedRuns struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of entries of the DLQ."`
	failedFilter
	Cursor string `env:"-" placeholder:"CURSOR" help:"Go on where an earlier command was interrupted."`
	sweeping
}

// Validate returns a sentence about the first setting that is wrong.
func (s *selectedRuns) Validate() error { return s.check(s.IDs, s.params()) }

// request returns the request for a method and a path below the DLQ. A sweep begins
// with the oldest failure.
func (s *selectedRuns) request(method, path string) client.Request {
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
	selectedRuns
	overrides
	listOutput
}

func (c *startCommand) start(t terminal, path, done string) error {
	request := c.request(http.MethodPost, path)
	request.Header = c.header()
	return c.sweep(t, request, change{
		thing: "failed run", done: done, made: "workflowRuns", newTable: newStartedTable, count: dryRun, repeatable: true,
	}, c.Output)
}

type restartFailedCommand struct{ startCommand }

// Run restarts the runs.
func (c *restartFailedCommand) Run(t terminal) error { return c.start(t, "/restart", "restarted") }

type resumeFailedCommand struct{ startCommand }

// Run resumes the runs.
func (c *resumeFailedCommand) Run(t terminal) error { return c.start(t, "/resume", "resumed") }

type deleteFailedCommand struct {
	selectedRuns
	oneOutput
}

// Run deletes the entries.
func (c *deleteFailedCommand) Run(t terminal) error {
	return c.sweep(t, c.request(http.MethodDelete, ""), change{
		thing: "failed run", done: "deleted", count: dryRun, repeatable: true,
	}, c.Output)
}
