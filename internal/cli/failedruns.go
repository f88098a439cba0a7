package cli

import "posthaste/internal/client"

// failedRuns is the DLQ of runs (contract, workflows 6.4).
type failedRuns struct {
	WorkflowRunID        []string `group:"filter" param:"workflowRunId" env:"-" sep:"none" placeholder:"ID" help:"Runs whose IDs start with a prefix. A filter given more than once matches any of its values."`
	WorkflowURL          []string `group:"filter" param:"workflowUrl" env:"-" sep:"none" placeholder:"URL" help:"Runs of the workflow at a URL."`
	ResponseStatus       []string `group:"filter" param:"responseStatus" env:"-" sep:"none" placeholder:"STATUS" help:"Runs that failed with a response status, such as 500. A run that got no response has 503, or 504 after a timeout."`
	FailureFunctionState []string `group:"filter" param:"failureFunctionState" env:"-" sep:"none" placeholder:"STATE" help:"Runs whose failure function is in a state, such as CALLBACK_FAIL."`
	WorkflowCreatedAt    []string `group:"filter" param:"workflowCreatedAt" env:"-" sep:"none" placeholder:"MS" help:"Runs created at exactly this time, in Unix milliseconds: tells apart runs that reused an ID."`

	commonFilters `kong:"set='things=Runs',set='made=Runs triggered',set='timed=Runs that failed'"`
}

func (failedRuns) kind() kind {
	return kind{thing: "failed run", paths: []string{"/v2/workflows/dlq"}, list: "messages", table: failedRunTable, print: printFailedRun}
}

func (failedRuns) prefix() (id, filter string) { return "wfr_", "--workflow-run-id" }

func (failedRuns) other() otherDLQ {
	return otherDLQ{"message", "/v2/dlq", "posthaste dlq messages", func(k kept) keptKind { return k.DeadLetters }}
}

// selectedRuns are the failed runs that a command is about.
type selectedRuns struct {
	selectedEntries[failedRuns]
	Cursor string `env:"-" placeholder:"CURSOR" help:"Continue from the cursor that an interrupted command printed."`
}

// request returns the request for a method and a path below the DLQ. A sweep begins
// with the oldest failure.
func (s selectedRuns) request(method, path string) client.Request {
	request := s.selectedEntries.request(method, path)
	if s.Cursor != "" {
		request.Query.Set("cursor", s.Cursor)
	}
	return request
}

// change returns what becomes of the runs. How many of a list are left for it to continue with
// is not known.
func (s selectedRuns) change(done string) change {
	c := change{thing: "failed run", done: done, dryRun: serverDryRun, repeatable: true, made: "workflowRuns", table: startedTable}
	if s.Cursor == "" {
		c.named = countIDs(s.IDs)
	}
	return c
}

// overrides are what runs are started with instead of what they were triggered with
// (contract, workflows 7.2).
type overrides struct {
	Delay            string   `group:"override" header:"Upstash-Delay" env:"-" name:"with-delay" placeholder:"SPAN" help:"Delay before the first delivery, such as 10m."`
	Retries          string   `group:"override" header:"Upstash-Retries" env:"-" name:"with-retries" placeholder:"N" help:"Maximum number of retries of a failed delivery."`
	RetryDelay       string   `group:"override" header:"Upstash-Retry-Delay" env:"-" name:"with-retry-delay" placeholder:"EXPR" help:"Expression for the delay before a retry, in milliseconds, such as 1000 * pow(2, retried)."`
	FlowControlKey   string   `group:"override" header:"Upstash-Flow-Control-Key" env:"-" name:"with-flow-control-key" placeholder:"KEY" help:"Flow-control key."`
	FlowControlValue string   `group:"override" header:"Upstash-Flow-Control-Value" env:"-" name:"with-flow-control-value" placeholder:"VALUE" help:"Flow-control limits, such as parallelism=5,rate=10."`
	Label            []string `group:"override" header:"Upstash-Label" env:"-" name:"with-label" sep:"none" placeholder:"LABEL" help:"Label; can be given more than once."`
	FailureCallback  string   `group:"override" header:"Upstash-Failure-Callback" env:"-" name:"with-failure-callback" placeholder:"URL" help:"URL that is called if the run fails again."`
}
