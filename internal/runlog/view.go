package runlog

import (
	"net/http"

	"posthaste"
)

// Run is a run as people and SDKs read it (contract, workflows 6.3). Times are Unix
// milliseconds unless said otherwise, and bodies are text.
type Run struct {
	ID          string             `json:"workflowRunId"`
	URL         string             `json:"workflowUrl"`
	State       posthaste.RunState `json:"workflowState"`
	CreatedAt   int64              `json:"workflowRunCreatedAt"`
	CompletedAt int64              `json:"workflowRunCompletedAt,omitempty"`
	CallerIP    string             `json:"workflowRunCallerIp,omitempty"`
	Response    *string            `json:"workflowRunResponse,omitempty"` // as it was returned
	DLQID       string             `json:"dlqId,omitempty"`
	FlowKey     string             `json:"flowControlKey,omitempty"`
	Labels

	Invoker   *Ref    `json:"invoker,omitempty"`
	RestartOf *Origin `json:"restartOf,omitempty"`
	ResumeOf  *Origin `json:"resumeOf,omitempty"`
	Successor *Ref    `json:"successor,omitempty"` // the run that restarted or resumed this one

	Failure *Failure `json:"failureFunction,omitempty"`
	Groups  []Group  `json:"steps"`
}

// Labels shows labels; the first is the one that older clients know.
type Labels struct {
	First string   `json:"label,omitempty"`
	All   []string `json:"labels,omitempty"`
}

// Ref names another run.
type Ref struct {
	ID        string `json:"workflowRunId"`
	URL       string `json:"workflowUrl,omitempty"`
	CreatedAt int64  `json:"workflowRunCreatedAt"`
}

// Origin names the failed run that a run took the place of.
type Origin struct {
	Ref
	DLQID string `json:"dlqId"` // its entry in the DLQ at that time
}

// The types of groups.
const (
	Sequential = "sequential" // one step
	Parallel   = "parallel"   // steps that are awaited together
	Next       = "next"       // the step that is being looked for: the last group, if there is one
)

// Group is a part of a run's steps, in the order in which they began.
type Group struct {
	Steps []*Step `json:"steps"`
	Type  string  `json:"type"`
}

// Step is a step of a run. What it has depends on its type and on how far it is.
type Step struct {
	ID         int                 `json:"stepId,omitempty"` // 0: the initial payload, or not known yet
	Name       string              `json:"stepName,omitempty"`
	Type       string              `json:"stepType,omitempty"`
	CallType   posthaste.CallType  `json:"callType,omitempty"`
	MessageID  posthaste.MessageID `json:"messageId"`
	State      posthaste.StepState `json:"state"`
	Concurrent int                 `json:"concurrent,omitempty"` // steps awaited together; 1: it alone
	Target     int                 `json:"targetStep,omitempty"` // the id, of a step that was planned and not begun
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

// Failure is the failure callback of a run, and the answer that it tells of.
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

// Event is one change of a run or of a step of it.
type Event struct {
	Time         int64       `json:"time"`
	State        string      `json:"state"` // of the run or of the step
	RunID        string      `json:"workflowRunId"`
	URL          string      `json:"workflowUrl"`
	RunCreatedAt int64       `json:"workflowCreatedAt"`
	Step         *Step       `json:"stepInfo,omitempty"`
	NextAt       int64       `json:"nextDeliveryTime,omitempty"`
	Header       http.Header `json:"headers,omitempty"` // of the trigger, of a run that began

	Error          string      `json:"error,omitempty"`
	ResponseStatus int         `json:"responseStatus,omitempty"`
	ResponseHeader http.Header `json:"responseHeaders,omitempty"`
	ResponseBody   string      `json:"responseBody,omitempty"`

	InvokerID        string  `json:"invokerWorkflowRunId,omitempty"` // of a run that began, as are the next two
	InvokerURL       string  `json:"invokerWorkflowUrl,omitempty"`
	InvokerCreatedAt int64   `json:"invokerWorkflowCreatedAt,omitempty"`
	Response         *string `json:"workflowRunResponse,omitempty"` // of a run that succeeded
	DLQID            string  `json:"dlqId,omitempty"`               // of a run that failed
	Labels
	CallerIP string `json:"callerIp,omitempty"`
}
