package api

import (
	"cmp"
	"encoding/base64"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	"posthaste"
)

// Views are the JSON forms of stored data; shared parts are embedded structs.

// messageFields are in every view of a message.
type messageFields struct {
	MessageID       string `json:"messageId"`
	URL             string `json:"url"`
	Method          string `json:"method"`
	MaxRetries      int    `json:"maxRetries"`
	TopicName       string `json:"topicName,omitempty"`
	EndpointName    string `json:"endpointName,omitempty"`
	QueueName       string `json:"queueName,omitempty"`
	ScheduleID      string `json:"scheduleId,omitempty"`
	Callback        string `json:"callback,omitempty"`
	FailureCallback string `json:"failureCallback,omitempty"`
	RetryDelay      string `json:"retryDelayExpression,omitempty"`
	labelFields
	flowFields
	runFields
}

// runFields identify a message's run.
type runFields struct {
	WorkflowRunID     string `json:"workflowRunId,omitempty"`
	WorkflowCreatedAt int64  `json:"workflowCreatedAt,omitempty"` // Unix ms
	WorkflowURL       string `json:"workflowUrl,omitempty"`
}

// labelFields have the first label for older clients.
type labelFields struct {
	Label  string   `json:"label,omitempty"`
	Labels []string `json:"labels,omitempty"`
}

// flowFields omit unset limits; a key always has a period.
type flowFields struct {
	FlowControlKey string `json:"flowControlKey,omitempty"`
	Parallelism    int    `json:"parallelism,omitempty"`
	Rate           int    `json:"rate,omitempty"`
	Period         int    `json:"period,omitempty"` // seconds
}

// contentFields are the content, redacted.
type contentFields struct {
	Header                http.Header `json:"header,omitempty"`
	Body                  string      `json:"body,omitempty"`       // if it is text
	BodyBase64            string      `json:"bodyBase64,omitempty"` // if it is not
	CallbackHeader        http.Header `json:"callbackHeader,omitempty"`
	FailureCallbackHeader http.Header `json:"failureCallbackHeader,omitempty"`
}

func newContentFields(s *posthaste.Settings, body []byte, limit bodyLimit) contentFields {
	fields := contentFields{
		Header:                posthaste.HeaderInJSON(s.Redact.ShowHeader(s.Header)),
		CallbackHeader:        callbackHeader(s.Redact, s.Callback),
		FailureCallbackHeader: callbackHeader(s.Redact, s.FailureCallback),
	}
	switch {
	case !s.Redact.Body:
		fields.Body, fields.BodyBase64 = limit.textOrBase64(body)
	case limit > 0:
		fields.Body = posthaste.Redacted(body)
	}
	return fields
}

// messageView is a message as shown (contract, messages 2.4).
type messageView struct {
	messageFields
	URLGroup string `json:"urlGroup,omitempty"` // one SDK's name of topicName
	contentFields
	NotBefore int64  `json:"notBefore"` // Unix ms
	CreatedAt int64  `json:"createdAt"` // Unix ms
	CallerIP  string `json:"callerIP,omitempty"`
}

func newMessageView(m *posthaste.Message, limit bodyLimit) messageView {
	return messageView{
		messageFields: newMessageFields(m),
		URLGroup:      m.URLGroup,
		contentFields: newContentFields(&m.Settings, m.Body, limit),
		NotBefore:     m.NotBefore.UnixMilli(),
		CreatedAt:     m.CreatedAt.UnixMilli(),
		CallerIP:      m.CallerIP,
	}
}

func newMessageFields(m *posthaste.Message) messageFields {
	return messageFields{
		MessageID:       m.ID.String(),
		URL:             m.URL,
		Method:          m.Verb(),
		MaxRetries:      m.MaxRetries(),
		TopicName:       m.URLGroup,
		EndpointName:    m.Endpoint,
		QueueName:       m.Queue,
		ScheduleID:      m.ScheduleID,
		Callback:        callbackURL(m.Callback),
		FailureCallback: callbackURL(m.FailureCallback),
		RetryDelay:      m.RetryDelay,
		labelFields:     newLabelFields(m.Labels),
		flowFields:      newFlowFields(m.FlowControl),
		runFields:       newRunFields(m.Run),
	}
}

func newRunFields(run *posthaste.RunLink) runFields {
	if run == nil {
		return runFields{}
	}
	return runFields{WorkflowRunID: run.ID, WorkflowCreatedAt: run.CreatedAt.UnixMilli(), WorkflowURL: run.URL}
}

func newLabelFields(labels []string) labelFields {
	if len(labels) == 0 {
		return labelFields{}
	}
	return labelFields{Label: labels[0], Labels: labels}
}

func newFlowFields(flow posthaste.FlowControl) flowFields {
	if flow.Key == "" {
		return flowFields{}
	}
	return flowFields{
		FlowControlKey: flow.Key,
		Parallelism:    flow.Parallelism,
		Rate:           flow.Rate,
		Period:         int(periodOf(flow.FlowLimit) / time.Second),
	}
}

// periodOf returns the window of a limit.
func periodOf(limit posthaste.FlowLimit) time.Duration {
	return cmp.Or(limit.Period, posthaste.DefaultFlowPeriod)
}

func callbackURL(callback *posthaste.Callback) string {
	if callback == nil {
		return ""
	}
	return callback.URL
}

// callbackHeader returns a callback's headers. Redactions of message and callback both apply,
// because they often share a secret.
func callbackHeader(redact posthaste.Redaction, callback *posthaste.Callback) http.Header {
	if callback == nil {
		return nil
	}
	return posthaste.HeaderInJSON(redact.And(callback.Settings.Redact).ShowHeader(callback.Given))
}

// bodyLimit is how many bytes of a body are shown.
type bodyLimit int

const wholeBody bodyLimit = math.MaxInt

// textOrBase64 returns bytes as text, or in base64 if they are not UTF-8. It does not cut
// characters.
func (l bodyLimit) textOrBase64(data []byte) (text, inBase64 string) {
	end := min(len(data), int(l))
	if !utf8.Valid(data) {
		return "", base64.StdEncoding.EncodeToString(data[:end])
	}
	for end < len(data) && !utf8.RuneStart(data[end]) {
		end--
	}
	return string(data[:end]), ""
}
