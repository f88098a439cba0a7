package main

import (
	"net/http"
	"net/url"

	"posthaste/internal/client"
)

// failedRuns is the DLQ of runs (contract, workflows 6.4).
type failedRuns struct {
	WorkflowRunID        []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Runs whose IDs start with a prefix. A filter given more than once matches any of its values."`
	WorkflowURL          []string `group:"filter" env:"-" sep:"none" placeholder:"URL" help:"Runs of the workflow at a URL."`
	Label                []string `group:"filter" env:"-" sep:"none" placeholder:"LABEL" help:"Runs with a label."`
	ResponseStatus       []string `group:"filter" env:"-" sep:"none" placeholder:"STATUS" help:"Runs that failed with a response status, such as 500. A run that got no response has 503, or 504 after a timeout."`
	FailureFunctionState []string `group:"filter" env:"-" sep:"none" placeholder:"STATE" help:"Runs whose failure function is in a state, such as CALLBACK_FAIL."`
	CallerIP             []string `group:"filter" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"Runs triggered from an IP address."`
	FlowControlKey       []string `group:"filter" env:"-" sep:"none" placeholder:"KEY" help:"Runs with a flow-control key."`
	WorkflowCreatedAt    []string `group:"filter" env:"-" sep:"none" placeholder:"MS" help:"Runs created at exactly this time, in Unix milliseconds: tells apart runs that reused an ID."`
	FromDate             moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs that failed at or after a time: Unix milliseconds, 2006-01-02 15:04 (local time), 2006-01-02T15:04:05Z, or an age such as 15m or 2d."`
	ToDate               moment   `group:"filter" env:"-" placeholder:"TIME" help:"Runs that failed at or before a time."`
}

func (failedRuns) path() string { return "/v2/workflows/dlq" }

func (f failedRuns) params() url.Values {
	params := url.Values{}
	setAll(params, map[string][]string{
		"workflowRunId": f.WorkflowRunID, "workflowUrl": f.WorkflowURL, "label": f.Label,
		"responseStatus": f.ResponseStatus, "failureFunctionState": f.FailureFunctionState,
		"callerIp": f.CallerIP, "flowControlKey": f.FlowControlKey, "workflowCreatedAt": f.WorkflowCreatedAt,
		"fromDate": f.FromDate.values(), "toDate": f.ToDate.values(),
	})
	return params
}

// selectedRuns are the failed runs that a command is about.
type selectedRuns struct {
	selectedEntries[failedRuns]
	Cursor string `env:"-" placeholder:"CURSOR" help:"Continue from the cursor that an interrupted command printed."`
}

// request returns the request for a method and a path below the DLQ. A sweep begins
// with the oldest failure.
func (s *selectedRuns) request(method, path string) client.Request {
	request := s.selectedEntries.request(method, path)
	setIf(request.Query, "cursor", s.Cursor)
	return request
}

// change returns what becomes of the runs. How many of a list are left for it to go on with
// is not known.
func (s *selectedRuns) change(done string) change {
	c := change{thing: "failed run", done: done, foresee: dryRun, repeatable: true}
	if s.Cursor == "" {
		c.named = countIDs(s.IDs)
	}
	return c
}

// overrides are what runs are started with instead of what they were triggered with
// (contract, workflows 7.2).
type overrides struct {
	Delay            string   `group:"override" env:"-" name:"with-delay" placeholder:"SPAN" help:"Delay before the run starts, such as 10m."`
	Retries          string   `group:"override" env:"-" name:"with-retries" placeholder:"N" help:"Maximum number of retries of a failed delivery."`
	RetryDelay       string   `group:"override" env:"-" name:"with-retry-delay" placeholder:"EXPR" help:"Expression for the delay before a retry, in milliseconds, such as 1000 * pow(2, retried)."`
	FlowControlKey   string   `group:"override" env:"-" name:"with-flow-control-key" placeholder:"KEY" help:"Flow-control key."`
	FlowControlValue string   `group:"override" env:"-" name:"with-flow-control-value" placeholder:"VALUE" help:"Flow-control limits, such as parallelism=5,rate=10."`
	Label            []string `group:"override" env:"-" name:"with-label" sep:"none" placeholder:"LABEL" help:"Label; can be given more than once."`
	FailureCallback  string   `group:"override" env:"-" name:"with-failure-callback" placeholder:"URL" help:"URL that is called if the run fails again."`
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
	request, change := c.request(http.MethodPost, path), c.change(done)
	request.Header = c.header()
	change.made, change.newTable = "workflowRuns", newStartedTable
	return c.sweep(t, request, change, c.Output)
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
	return c.sweep(t, c.request(http.MethodDelete, ""), c.change("deleted"), c.Output)
}
