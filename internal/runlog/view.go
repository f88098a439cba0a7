package runlog

import (
	"net/http"

	"posthaste"
)

// Run is a run as shown (contract, workflows 6.3). Times are Unix milliseconds and bodies text,
// unless stated.
type Run struct {
	ID          string             `json:"workflowRunId"`
	URL         string             `json:"workflowUrl"`
	State       posthaste.RunState `json:"workflowState"`
	CreatedAt   int64              `json:"workflowRunCreatedAt"`
	CompletedAt int64              `json:"workflowRunCompletedAt,omitempty"`
	CallerIP    string             `json:"workflowRunCallerIp,omitempty"`
	Response    *string            `json:"workflowRunResponse,omitempty"`
	DLQID       string             `json:"dlqId,omitempty"`
	FlowKey     string             `json:"flowControlKey,omitempty"`
	Labels

	Invoker   *Ref    `json:"invoker,omitempty"`
	RestartOf *Origin `json:"restartOf,omitempty"`
	ResumeOf  *Origin `json:"resumeOf,omitempty"`
	Successor *Ref    `json:"successor,omitempty"` // that restarted or resumed this one

	Failure *Failure `json:"failureFunction,omitempty"`
	Groups  []Group  `json:"steps"`
}

// Labels has First for older clients.
type Labels struct {
	First string   `json:"label,omitempty"`
	All   []string `json:"labels,omitempty"`
}

// Ref identifies another run.
type Ref struct {
	ID        string `json:"workflowRunId"`
	URL       string `json:"workflowUrl,omitempty"`
	CreatedAt int64  `json:"workflowRunCreatedAt"`
}

// Origin identifies the failed run that this one replaced.
type Origin struct {
	Ref
	DLQID string `json:"dlqId"` // its former entry
}

// Types of groups.
const (
	Sequential = "sequential" // one step
	Parallel   = "parallel"   // steps awaited together
	Next       = "next"       // the step about to run, always last
)

// Group is a group of steps, in order of their start.
type Group struct {
	Steps []*Step `json:"steps"`
	Type  string  `json:"type"`
}

// Step is a step of a run. Its fields depend on its type and state.
type Step struct {
	ID         int                 `json:"stepId,omitempty"` // 0: payload, or unknown
	Name       string              `json:"stepName,omitempty"`
	Type       string              `json:"stepType,omitempty"`
	CallType   posthaste.CallType  `json:"callType,omitempty"`
	MessageID  posthaste.MessageID `json:"messageId"`
	State      posthaste.StepState `json:"state"`
	Concurrent int                 `json:"concurrent,omitempty"` // size of the group
	Target     int                 `json:"targetStep,omitempty"` // planned step's id
	CreatedAt  int64               `json:"createdAt,omitempty"`
	Header     http.Header         `json:"headers,omitempty"`
	Out        string              `json:"out,omitempty"`
	Retries    int                 `json:"retries"`
	RetryDelay string              `json:"retryDelay,omitempty"`
	NextAt     int64               `json:"nextDeliveryTime,omitempty"`
	Errors     []Error             `json:"errors,omitempty"` // failed attempts, oldest first

	SleepFor   int64 `json:"sleepFor,omitempty"`   // seconds
	SleepUntil int64 `json:"sleepUntil,omitempty"` // Unix seconds

	CallURL            string      `json:"callUrl,omitempty"`
	CallMethod         string      `json:"callMethod,omitempty"`
	CallHeader         http.Header `json:"callHeaders,omitempty"`
	CallBody           string      `json:"callBody,omitempty"`
	CallResponseStatus int         `json:"callResponseStatus,omitempty"`
	CallResponseHeader http.Header `json:"callResponseHeaders,omitempty"`
	CallResponseBody   string      `json:"callResponseBody,omitempty"`

	WaitEventID  string `json:"waitEventId,omitempty"`
	WaitDuration string `json:"waitTimeoutDuration,omitempty"`
	WaitDeadline int64  `json:"waitTimeoutDeadline,omitempty"` // Unix seconds
	WaitTimedOut bool   `json:"waitTimeout,omitempty"`

	InvokedID        string      `json:"invokedWorkflowRunId,omitempty"`
	InvokedURL       string      `json:"invokedWorkflowUrl,omitempty"`
	InvokedCreatedAt int64       `json:"invokedWorkflowCreatedAt,omitempty"`
	InvokedBody      string      `json:"invokedWorkflowRunBody,omitempty"`
	InvokedHeader    http.Header `json:"invokedWorkflowRunHeaders,omitempty"`
}

// Error is a failed attempt to deliver a message.
type Error struct {
	Error  string      `json:"error"`
	Body   string      `json:"body"`
	Header http.Header `json:"headers"`
	Status int         `json:"status"`
	Time   int64       `json:"time"`
}

// Failure is a run's failure callback and the response that it reports.
type Failure struct {
	MessageID    posthaste.MessageID     `json:"messageId"`
	URL          string                  `json:"url"`
	State        posthaste.CallbackState `json:"state"`
	FailHeader   http.Header             `json:"failHeaders"`
	FailStatus   int                     `json:"failStatus"`
	FailResponse string                  `json:"failResponse"`
	DLQID        string                  `json:"dlqId"`

	ResponseStatus int         `json:"responseStatus,omitempty"`
	ResponseHeader http.Header `json:"responseHeaders,omitempty"`
	ResponseBody   string      `json:"responseBody,omitempty"`
	MaxRetries     int         `json:"maxRetries"`
	NextAt         int64       `json:"nextDeliveryTime,omitempty"`
	Errors         []Error     `json:"errors,omitempty"`
}

// Event is one change of a run or step.
type Event struct {
	Time         int64       `json:"time"`
	State        string      `json:"state"` // of run or step
	RunID        string      `json:"workflowRunId"`
	URL          string      `json:"workflowUrl"`
	RunCreatedAt int64       `json:"workflowCreatedAt"`
	Step         *Step       `json:"stepInfo,omitempty"`
	NextAt       int64       `json:"nextDeliveryTime,omitempty"`
	Header       http.Header `json:"headers,omitempty"` // trigger's; RUN_STARTED

	Error          string      `json:"error,omitempty"`
	ResponseStatus int         `json:"responseStatus,omitempty"`
	ResponseHeader http.Header `json:"responseHeaders,omitempty"`
	ResponseBody   string      `json:"responseBody,omitempty"`

	InvokerID        string  `json:"invokerWorkflowRunId,omitempty"` // RUN_STARTED, as the next two
	InvokerURL       string  `json:"invokerWorkflowUrl,omitempty"`
	InvokerCreatedAt int64   `json:"invokerWorkflowCreatedAt,omitempty"`
	Response         *string `json:"workflowRunResponse,omitempty"` // RUN_SUCCESS
	DLQID            string  `json:"dlqId,omitempty"`               // RUN_FAILED
	Labels
	CallerIP string `json:"callerIp,omitempty"`
}
