package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Report is the body of a callback (contract, messages 5; for workflow runs, workflows 4.5 and
// 5.2).
type Report struct {
	Status          int         `json:"status"` // 0: no response
	Header          http.Header `json:"header"`
	Body            []byte      `json:"body"`
	Truncated       bool        `json:"truncated,omitempty"` // the response was larger than what is stored
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

// NewReport returns the report of an attempt. response is nil if there was none.
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

// callbacks makes the callback messages of an attempt. The callback gets every attempt, the failure
// callback only the last failure.
func (e *Engine) callbacks(claim store.Claim, state posthaste.State, response *posthaste.Response, now time.Time) (all []store.Callback, err error) {
	m, failed := claim.Message, state == posthaste.StateFailed
	if m.Callback == nil && (m.FailureCallback == nil || !failed) {
		return nil, nil
	}
	report, err := json.Marshal(NewReport(claim, response))
	if err != nil {
		return nil, fmt.Errorf("encode callback: %w", err)
	}
	if m.Callback != nil {
		callback, err := e.newCallback(claim, m.Callback, report, now)
		if err != nil {
			return nil, err
		}
		all = append(all, store.Callback{Message: callback})
	}
	if m.FailureCallback != nil && failed {
		const quote = `"}`
		named := slices.Concat(report[:len(report)-1], []byte(`,"dlqId":"`+quote))
		callback, err := e.newCallback(claim, m.FailureCallback, named, now)
		if err != nil {
			return nil, err
		}
		all = append(all, store.Callback{Message: callback, DeadLetterAt: len(named) - len(quote)})
	}
	return all, nil
}

// ReportRedaction returns the redaction of a message whose body is a report: its own, the
// source's, and the whole body if the source redacts anything.
func ReportRedaction(source, own posthaste.Redaction) posthaste.Redaction {
	return own.And(source).And(posthaste.Redaction{Body: !source.IsZero()})
}

// newCallback makes a callback message. It has its source's retries by default, and no callbacks
// itself.
func (e *Engine) newCallback(claim store.Claim, to *posthaste.Callback, report []byte, now time.Time) (*posthaste.Message, error) {
	id, err := e.newID(now)
	if err != nil {
		return nil, err
	}
	source := claim.Message
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
		settings.Trace = e.options.Traces.Attempt(source, claim.Retried)
	}
	m := &posthaste.Message{
		ID:        id,
		User:      source.User,
		URL:       to.URL,
		Body:      report,
		CreatedAt: now,
		NotBefore: now.Add(to.Delay),
		CallerIP:  source.CallerIP,
		SourceID:  source.ID,
		Settings:  settings,
	}
	m.SetSlot(e.options.OwnSlot)
	return m, nil
}
