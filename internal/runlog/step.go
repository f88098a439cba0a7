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

// written is a step as SDKs write it into the list of a run (contract, workflows
// 3.1). The server adds what ended a wait.
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

// text is a JSON string, or another value as it is written: SDKs differ. null is
// the empty text.
type text string

// UnmarshalJSON implements json.Unmarshaler.
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

// readStep reads a step. ok is false for an entry that is none.
func readStep(data []byte) (w written, ok bool) {
	err := json.Unmarshal(data, &w)
	return w, err == nil && w.Type != ""
}

// isPlan reports whether the step announces one that is awaited together with
// others, and is not its result.
func (w *written) isPlan() bool { return w.ID == 0 && w.Target > 0 }

// stepID returns the id of the step, also if it is only planned.
func (w *written) stepID() int {
	if w.isPlan() {
		return w.Target
	}
	return w.ID
}

// describe shows a step as it is written.
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

// describeMessage shows what delivers a step; m is nil if it is not known any more.
func (s *Step) describeMessage(id posthaste.MessageID, m *posthaste.Message, d display) {
	s.MessageID, s.CreatedAt = id, id.CreatedAt().UnixMilli()
	if m != nil {
		s.Header, s.Retries, s.RetryDelay = d.header(m.Header), m.MaxRetries(), m.RetryDelay
	}
}

// The headers in which the answer of a call names its step.
const (
	headerStepID     = "Upstash-Workflow-Stepid"
	headerStepName   = "Upstash-Workflow-Stepname"
	headerStepType   = "Upstash-Workflow-Steptype"
	headerConcurrent = "Upstash-Workflow-Concurrent"
)

// stepOfCall returns what the headers of a call's answer tell of its step.
func stepOfCall(h http.Header) written {
	id, _ := strconv.Atoi(h.Get(headerStepID))
	concurrent, _ := strconv.Atoi(h.Get(headerConcurrent))
	return written{ID: id, Name: posthaste.DecodeHeaderText(h.Get(headerStepName)), Type: h.Get(headerStepType), Concurrent: concurrent}
}

// answerHeader returns the headers of the answer that a call is to have.
func answerHeader(call *posthaste.Message) http.Header {
	if call == nil || call.Callback == nil {
		return nil
	}
	return call.Callback.Settings.Header
}

// describeCall shows a request that is made for a step.
func (s *Step) describeCall(call *posthaste.Message, body []byte, d display) {
	s.CallBody = d.body(body)
	if call != nil {
		s.CallURL, s.CallMethod, s.CallHeader = call.URL, call.Verb(), d.header(call.Header)
	}
}

// report is what came of a call, as the run is told (contract, workflows 4.5).
type report struct {
	Status          int         `json:"status"`
	Header          http.Header `json:"header"`
	Body            []byte      `json:"body"`
	SourceMessageID string      `json:"sourceMessageId"`
}

func readReport(data []byte) (r report) {
	_ = json.Unmarshal(data, &r) // we wrote it; what is not there is not shown
	r.Header = posthaste.HeaderFromJSON(r.Header)
	return r
}

// describeAnswer shows what came of a call.
func (s *Step) describeAnswer(r report, d display) {
	s.CallResponseStatus = r.Status
	s.CallResponseHeader = d.header(r.Header)
	s.CallResponseBody = d.body(r.Body)
}

// describeWait shows what a step waits for; invoked is nil if it is no run, or none
// that is known.
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

// describeInvoked shows what a run was given by the one that invoked it.
func (s *Step) describeInvoked(invoked *Invoked, d display) {
	if invoked == nil {
		return
	}
	d = d.and(invoked.Run.Redact)
	s.InvokedHeader, s.InvokedBody = d.header(invoked.Run.Header), d.body(invoked.Payload)
}

// initial is the name and the type of a run's first entry.
var initial = written{Name: "init", Type: "Initial", Concurrent: 1}

// headerErrorStep names the step that failed in an SDK.
const headerErrorStep = "Upstash-Error-Step-Name"

// nameOfFailure returns the name of the step that an SDK says has failed, "" if it
// says none.
func nameOfFailure(answer *posthaste.Response) string {
	if answer == nil {
		return ""
	}
	return strings.TrimSpace(posthaste.DecodeHeaderText(answer.Header.Get(headerErrorStep)))
}
