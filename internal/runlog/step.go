package runlog

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
)

// written is a step as SDKs write it (contract, workflows 3.1), with what the server adds when a
// wait ends.
type written struct {
	ID         int    `json:"stepId"`
	Name       string `json:"stepName"`
	Type       string `json:"stepType"`
	Concurrent int    `json:"concurrent"`
	Target     int    `json:"targetStep"`
	Out        text   `json:"out"`
	SleepFor   text   `json:"sleepFor"`
	SleepUntil text   `json:"sleepUntil"`

	WaitEventID  string `json:"waitEventId"`
	Timeout      text   `json:"timeout"`
	WaitDeadline int64  `json:"waitTimeoutDeadline"`
	WaitTimedOut bool   `json:"waitTimeout"`

	InvokedID        string `json:"invokedWorkflowRunId"`
	InvokedURL       string `json:"invokedWorkflowUrl"`
	InvokedCreatedAt int64  `json:"invokedWorkflowCreatedAt"`
}

// text is a JSON string, or the JSON of another value, because SDKs differ. null is "".
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		return json.Unmarshal(data, (*string)(t))
	case 'n':
		*t = ""
	default:
		*t = text(data)
	}
	return nil
}

// readStep parses a step; ok is false for anything else.
func readStep(data []byte) (w written, ok bool) {
	err := json.Unmarshal(data, &w)
	return w, err == nil && w.Type != ""
}

// isPlan reports whether the step announces one of a parallel group.
func (w *written) isPlan() bool { return w.ID == 0 && w.Target > 0 }

// stepID returns the id of the step, planned or not.
func (w *written) stepID() int {
	if w.isPlan() {
		return w.Target
	}
	return w.ID
}

// describe sets what the written step has.
func (s *Step) describe(w written, d display) {
	s.ID, s.Name, s.Type, s.CallType = w.stepID(), w.Name, w.Type, posthaste.CallStep
	s.Concurrent = max(w.Concurrent, 1)
	s.Target = 0
	if w.isPlan() {
		s.Target = w.Target
	}
	s.Out = d.body([]byte(w.Out))
	if pause, err := backoff.ParseDuration(string(w.SleepFor)); err == nil {
		s.SleepFor = int64(pause / time.Second)
	}
	if until, err := strconv.ParseFloat(string(w.SleepUntil), 64); err == nil {
		s.SleepUntil = int64(until)
	}
	s.WaitDeadline, s.WaitTimedOut = w.WaitDeadline, w.WaitTimedOut
	if w.WaitEventID != "" {
		s.WaitEventID = w.WaitEventID
	}
	if w.WaitEventID != "" && w.Timeout != "" {
		s.WaitDuration = string(w.Timeout)
	}
	if w.InvokedID != "" {
		s.InvokedID, s.InvokedURL, s.InvokedCreatedAt = w.InvokedID, w.InvokedURL, w.InvokedCreatedAt
	}
}

// describeMessage sets what the message has; m is nil if it has been removed.
func (s *Step) describeMessage(id posthaste.MessageID, m *posthaste.Message, d display) {
	s.MessageID, s.CreatedAt = id, id.CreatedAt().UnixMilli()
	if m != nil {
		s.Header, s.Retries, s.RetryDelay = d.header(m.Header), m.MaxRetries(), m.RetryDelay
	}
}

// Headers of a call's response that name its step.
const (
	headerStepID     = "Upstash-Workflow-Stepid"
	headerStepName   = "Upstash-Workflow-Stepname"
	headerStepType   = "Upstash-Workflow-Steptype"
	headerConcurrent = "Upstash-Workflow-Concurrent"
)

// stepOfCall returns the step named by those headers.
func stepOfCall(h http.Header) written {
	id, _ := strconv.Atoi(h.Get(headerStepID))
	concurrent, _ := strconv.Atoi(h.Get(headerConcurrent))
	return written{ID: id, Name: posthaste.DecodeHeaderText(h.Get(headerStepName)), Type: h.Get(headerStepType), Concurrent: concurrent}
}

// responseHeader returns the headers that a call's response will have.
func responseHeader(call *posthaste.Message) http.Header {
	if call == nil || call.Callback == nil {
		return nil
	}
	return call.Callback.Settings.Header
}

// describeCall sets a step's call.
func (s *Step) describeCall(call *posthaste.Message, body []byte, d display) {
	s.CallBody = d.body(body)
	if call != nil {
		s.CallURL, s.CallMethod, s.CallHeader = call.URL, call.Verb(), d.header(call.Header)
	}
}

// report is the result of a call (contract, workflows 4.5).
type report struct {
	Status          int         `json:"status"`
	Header          http.Header `json:"header"`
	Body            []byte      `json:"body"`
	SourceMessageID string      `json:"sourceMessageId"`
}

func readReport(data []byte) (r report) {
	_ = json.Unmarshal(data, &r) // written by us; missing fields are not shown
	r.Header = posthaste.HeaderFromJSON(r.Header)
	return r
}

// describeResponse sets a call's response.
func (s *Step) describeResponse(r report, d display) {
	s.CallResponseStatus = r.Status
	s.CallResponseHeader = d.header(r.Header)
	s.CallResponseBody = d.body(r.Body)
}

// describeWait sets what a step waits for; invoked is nil unless it is a known run.
func (s *Step) describeWait(w *posthaste.Waiter, invoked *Invoked, d display) {
	if eventID, ok := w.Topic.EventID(); ok {
		s.WaitEventID, s.WaitDuration = eventID, w.Timeout
		if !w.Deadline.IsZero() {
			s.WaitDeadline = w.Deadline.Unix()
		}
		return
	}
	if w.Invoked != nil {
		s.InvokedID, s.InvokedURL, s.InvokedCreatedAt = w.Invoked.ID, w.Invoked.URL, w.Invoked.CreatedAt.UnixMilli()
	}
	s.describeInvoked(invoked, d)
}

// describeInvoked sets an invoked run's payload.
func (s *Step) describeInvoked(invoked *Invoked, d display) {
	if invoked == nil {
		return
	}
	d = d.and(invoked.Run.Redact)
	s.InvokedHeader, s.InvokedBody = d.header(invoked.Run.Header), d.body(invoked.Payload)
}

// initial is a run's first entry.
var initial = written{Name: "init", Type: "Initial", Concurrent: 1}

// headerErrorStep has the name of the failed step.
const headerErrorStep = "Upstash-Error-Step-Name"

// nameOfFailure returns the failed step's name from an SDK's response, "" if it has none.
func nameOfFailure(answer *posthaste.Response) string {
	if answer == nil {
		return ""
	}
	return strings.TrimSpace(posthaste.DecodeHeaderText(answer.Header.Get(headerErrorStep)))
}
