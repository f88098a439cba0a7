package api

import (
	"posthaste"
	"posthaste/internal/store"
)

// entryEncoder encodes the entries of a page, for a single user. What an entry says of its
// message is encoded once a message: most have several entries on a page, and it is by far the
// larger part. Make one with newEntryEncoder.
type entryEncoder struct {
	pieces   // what was written
	form     entryForm
	messages map[posthaste.MessageID][]byte // in the pieces: what entries say of their messages
	text     []byte                         // scratch
}

func newEntryEncoder(form entryForm) *entryEncoder {
	return &entryEncoder{form: form, messages: map[posthaste.MessageID][]byte{}}
}

// add appends an entry in JSON, in one line with its end.
func (e *entryEncoder) add(entry *store.Entry) {
	own := e.form.view(entry)
	e.text = own.append(append(e.text[:0], '{'))
	e.write(e.text)
	id := entry.Message.ID
	if known, ok := e.messages[id]; ok {
		e.write(known)
		return
	}
	m := e.form.message(entry.Message)
	e.text = append(m.append(e.text[:0]), "}\n"...)
	e.messages[id] = e.write(e.text)
}

// append appends the members of what encoding/json makes of it. So do the following.
func (l *logEntry) append(dst []byte) []byte {
	dst = appendNumber(dst, "time", l.Time)
	dst = appendText(dst, "state", string(l.State))
	dst = appendOptionalText(dst, "error", l.Error)
	dst = appendOptionalNumber(dst, "nextDeliveryTime", l.NextDeliveryTime)
	if l.Attempt != nil {
		dst = append(appendName(dst, "attempt"), '{')
		dst = appendOptionalNumber(dst, "status", l.Attempt.Status)
		dst = append(appendNumber(dst, "duration", l.Attempt.Duration), '}')
	}
	if l.loggedResponse != nil {
		dst = l.loggedResponse.append(dst)
	}
	return dst
}

func (r *loggedResponse) append(dst []byte) []byte {
	dst = appendNumber(dst, "responseStatus", r.Status)
	dst = appendBytes(dst, "responseBody", r.Body)
	dst = appendHeader(dst, "responseHeaders", r.Headers)
	dst = appendHeader(dst, "responseHeader", r.HeadersForSDKs)
	return appendOptionalTrue(dst, "responseTruncated", r.Truncated)
}

func (m *loggedMessage) append(dst []byte) []byte {
	dst = m.messageFields.append(dst)
	dst = appendHeader(dst, "header", m.Header)
	switch body := m.Body.(type) {
	case []byte:
		dst = appendBytes(dst, "body", body)
	case string:
		dst = appendText(dst, "body", body)
	}
	dst = appendOptionalNumber(dst, "timeout", m.Timeout)
	dst = appendOptionalHeader(dst, "callbackHeaders", m.CallbackHeaders)
	dst = appendOptionalHeader(dst, "failureCallbackHeaders", m.FailureCallbackHeaders)
	return appendOptionalText(dst, "retryDelayExpr", m.RetryDelayForSDKs)
}

func (m *messageFields) append(dst []byte) []byte {
	dst = appendText(dst, "messageId", m.MessageID)
	dst = appendText(dst, "url", m.URL)
	dst = appendText(dst, "method", m.Method)
	dst = appendNumber(dst, "maxRetries", m.MaxRetries)
	dst = appendOptionalText(dst, "topicName", m.TopicName)
	dst = appendOptionalText(dst, "endpointName", m.EndpointName)
	dst = appendOptionalText(dst, "queueName", m.QueueName)
	dst = appendOptionalText(dst, "scheduleId", m.ScheduleID)
	dst = appendOptionalText(dst, "callback", m.Callback)
	dst = appendOptionalText(dst, "failureCallback", m.FailureCallback)
	dst = appendOptionalText(dst, "retryDelayExpression", m.RetryDelay)
	dst = appendOptionalText(dst, "label", m.Label)
	if len(m.Labels) > 0 {
		dst = appendTexts(appendName(dst, "labels"), m.Labels)
	}
	dst = appendOptionalText(dst, "flowControlKey", m.FlowControlKey)
	dst = appendOptionalNumber(dst, "parallelism", m.Parallelism)
	dst = appendOptionalNumber(dst, "rate", m.Rate)
	dst = appendOptionalNumber(dst, "period", m.Period)
	dst = appendOptionalText(dst, "workflowRunId", m.WorkflowRunID)
	dst = appendOptionalNumber(dst, "workflowCreatedAt", m.WorkflowCreatedAt)
	return appendOptionalText(dst, "workflowUrl", m.WorkflowURL)
}
