package api

import (
	"encoding/base64"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"posthaste"
)

// The views are the JSON forms of what is stored. Parts that several forms
// share are structs of their own, embedded where they belong.

// messageFields are the members that every view of a message has.
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
}

// labelFields show labels; the first is the one that older clients know.
type labelFields struct {
	Label  string   `json:"label,omitempty"`
	Labels []string `json:"labels,omitempty"`
}

// flowFields show a flow-control key and its limits. Unset limits are left out,
// the period is shown whenever there is a key.
type flowFields struct {
	FlowControlKey string `json:"flowControlKey,omitempty"`
	Parallelism    int    `json:"parallelism,omitempty"`
	Rate           int    `json:"rate,omitempty"`
	Period         int    `json:"period,omitempty"` // seconds
}

// messageView is a message as it is read by its id (contract, messages 2.4);
// dead letters have the same members and some more.
type messageView struct {
	messageFields
	URLGroup              string      `json:"urlGroup,omitempty"` // the name one SDK reads topicName by
	Header                http.Header `json:"header,omitempty"`
	Body                  string      `json:"body,omitempty"`       // if it is text
	BodyBase64            string      `json:"bodyBase64,omitempty"` // if it is not
	CallbackHeader        http.Header `json:"callbackHeader,omitempty"`
	FailureCallbackHeader http.Header `json:"failureCallbackHeader,omitempty"`
	NotBefore             int64       `json:"notBefore"` // Unix ms
	CreatedAt             int64       `json:"createdAt"` // Unix ms
	CallerIP              string      `json:"callerIP,omitempty"`
}

func newMessageView(m *posthaste.Message) messageView {
	view := messageView{
		messageFields:         newMessageFields(m),
		URLGroup:              m.URLGroup,
		Header:                m.Redact.ShowHeader(m.Header),
		CallbackHeader:        callbackHeader(m, m.Callback),
		FailureCallbackHeader: callbackHeader(m, m.FailureCallback),
		NotBefore:             m.NotBefore.UnixMilli(),
		CreatedAt:             m.CreatedAt.UnixMilli(),
		CallerIP:              m.CallerIP,
	}
	view.Body, view.BodyBase64 = showBody(m)
	return view
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
	}
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
	period := flow.Period
	if period == 0 {
		period = posthaste.DefaultFlowPeriod
	}
	return flowFields{
		FlowControlKey: flow.Key,
		Parallelism:    flow.Parallelism,
		Rate:           flow.Rate,
		Period:         int(period / time.Second),
	}
}

func callbackURL(callback *posthaste.Callback) string {
	if callback == nil {
		return ""
	}
	return callback.URL
}

// callbackHeader shows the headers given for a callback. What is redacted in
// the message or in the callback is redacted there: the same secret often goes
// to both.
func callbackHeader(m *posthaste.Message, callback *posthaste.Callback) http.Header {
	if callback == nil {
		return nil
	}
	own := callback.Settings.Redact
	redact := posthaste.Redaction{
		AllHeaders: m.Redact.AllHeaders || own.AllHeaders,
		Headers:    slices.Concat(m.Redact.Headers, own.Headers),
	}
	return redact.ShowHeader(callback.Given)
}

// showBody returns a body as text, or in base64 if it is not text.
func showBody(m *posthaste.Message) (text, inBase64 string) {
	switch {
	case m.Redact.Body:
		return posthaste.Redacted(m.Body), ""
	case utf8.Valid(m.Body):
		return string(m.Body), ""
	default:
		return "", base64.StdEncoding.EncodeToString(m.Body)
	}
}
