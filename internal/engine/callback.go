package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Report is what a callback tells of an attempt (contract, messages 5; those of
// workflow runs, workflows 4.5 and 5.2).
// Byte slices are base64 in JSON.
type Report struct {
	Status          int         `json:"status"` // 0: no answer
	Header          http.Header `json:"header"`
	Body            []byte      `json:"body"`
	Truncated       bool        `json:"truncated,omitempty"` // the answer was larger than what is kept
	Retried         int         `json:"retried"`
	MaxRetries      int         `json:"maxRetries"`
	DLQID           string      `json:"dlqId,omitempty"`
	SourceMessageID string      `json:"sourceMessageId"`
	TopicName       string      `json:"topicName,omitempty"`
	EndpointName    string      `json:"endpointName,omitempty"`
	URL             string      `json:"url"`
	Method          string      `json:"method"`
	SourceHeader    http.Header `json:"sourceHeader"`
	SourceBody      []byte      `json:"sourceBody"`
	NotBefore       int64       `json:"notBefore"`
	CreatedAt       int64       `json:"createdAt"`
	ScheduleID      string      `json:"scheduleId,omitempty"`
	CallerIP        string      `json:"callerIP,omitempty"`

	WorkflowRunID     string `json:"workflowRunId,omitempty"`
	WorkflowCreatedAt int64  `json:"workflowCreatedAt,omitempty"`
}

// NewReport tells of an attempt that had the response, nil for none.
func NewReport(claim store.Claim, response *posthaste.Response) Report {
	m := claim.Message
	body := Report{
		Header:          http.Header{},
		Body:            []byte{},
		Retried:         claim.Retried,
		MaxRetries:      m.MaxRetries(),
		SourceMessageID: m.ID.String(),
		TopicName:       m.URLGroup,
		EndpointName:    m.Endpoint,
		URL:             m.URL,
		Method:          m.Verb(),
		SourceHeader:    orEmpty(posthaste.HeaderInJSON(m.Header)),
		SourceBody:      append([]byte{}, m.Body...),
		NotBefore:       m.NotBefore.UnixMilli(),
		CreatedAt:       m.CreatedAt.UnixMilli(),
		ScheduleID:      m.ScheduleID,
		CallerIP:        m.CallerIP,
	}
	if response != nil {
		body.Status, body.Header = response.Status, orEmpty(posthaste.HeaderInJSON(response.Header))
		body.Body, body.Truncated = append(body.Body, response.Body...), response.Truncated
	}
	return body
}

func orEmpty(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return h
}

// callbacks returns the maker of the messages that tell of an attempt, nil if
// nobody is to be told: the callback hears of every attempt, the failure callback
// of the failure.
func (e *Engine) callbacks(claim store.Claim, state posthaste.State, response *posthaste.Response, now time.Time,
) func(posthaste.DeadLetterID) ([]*posthaste.Message, error) {
	m := claim.Message
	told := m.Callback
	failure := m.FailureCallback
	if state != posthaste.StateFailed {
		failure = nil
	}
	if told == nil && failure == nil {
		return nil
	}
	return func(id posthaste.DeadLetterID) ([]*posthaste.Message, error) {
		body := NewReport(claim, response)
		var messages []*posthaste.Message
		for _, to := range []struct {
			callback *posthaste.Callback
			dlqID    string
		}{{told, ""}, {failure, id.String()}} {
			if to.callback == nil {
				continue
			}
			body.DLQID = to.dlqID
			callback, err := e.newCallback(m, to.callback, body, now)
			if err != nil {
				return nil, err
			}
			messages = append(messages, callback)
		}
		return messages, nil
	}
}

// ReportRedaction returns what is not shown of a message whose body is a report:
// what its own settings say, what the source of the report hides, and all of the
// body if the source hides anything, for the report tells it.
func ReportRedaction(source, own posthaste.Redaction) posthaste.Redaction {
	return own.And(source).And(posthaste.Redaction{Body: !source.IsZero()})
}

// newCallback makes the message of a callback. Unless the callback says
// otherwise it is retried as often as its source; it has no callbacks itself.
func (e *Engine) newCallback(source *posthaste.Message, to *posthaste.Callback, body Report, now time.Time) (*posthaste.Message, error) {
	id, err := e.newID(now)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode callback: %w", err)
	}
	settings := to.Settings
	if settings.Retries == nil {
		retries := source.MaxRetries()
		settings.Retries = &retries
	}
	settings.Header = settings.Header.Clone()
	if settings.Header == nil {
		settings.Header = http.Header{}
	}
	settings.Header.Set("Content-Type", "application/json")
	settings.Callback, settings.FailureCallback = nil, nil
	settings.Redact = ReportRedaction(source.Redact, settings.Redact)
	settings.Trace = source.Trace
	if e.options.Traces != nil {
		settings.Trace = e.options.Traces.Attempt(source, body.Retried)
	}
	return &posthaste.Message{
		ID:        id,
		User:      source.User,
		URL:       to.URL,
		Body:      text,
		CreatedAt: now,
		NotBefore: now.Add(to.Delay),
		CallerIP:  source.CallerIP,
		SourceID:  source.ID,
		Settings:  settings,
	}, nil
}
