package api

import (
	"net/http"
	"net/url"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// cancelledToSDKs is how /v2/events spells CANCELLED: only SDKs call it, and
// they know the state by this name (contract, decision 3).
const cancelledToSDKs posthaste.State = "CANCELED"

// logCount limits a page of the log (contract, 4.1).
var logCount = wire.Count{Default: 1000, Most: 1000}

// readLog answers with a page of the log (contract, 4.1), or with one of the streams of it. cancelled
// is how it spells that state.
func (a *api) readLog(cancelled posthaste.State) func(r *request, params url.Values) (answer, error) {
	return func(r *request, params url.Values) (answer, error) {
		limit, err := wire.BodyLimit(params)
		if err != nil {
			return answer{}, err
		}
		form := entryForm{cancelled, limit}
		switch preferredMedia(r.Header.Values("Accept")) {
		case mediaEvents:
			return a.followLog(r, params, form)
		case mediaLines:
			return a.exportLog(r, params, form)
		default:
			return a.logPage(r, params, form)
		}
	}
}

func (a *api) logPage(r *request, params url.Values, form entryForm) (answer, error) {
	query, err := wire.Events(params, logCount)
	if err != nil {
		return answer{}, err
	}
	encoder := newEntryEncoder(form)
	encoder.writeString(`{"events":[`)
	reserved, err := r.readPage(func() (size int, err error) {
		first := encoder.size
		next, more, err := a.options.Log.Query(r.Context(), r.user, query, func(entry *store.Entry) error {
			if encoder.size > first {
				encoder.writeString(",")
			}
			encoder.add(entry)
			return nil
		})
		if err != nil {
			return 0, err
		}
		encoder.writeString(endOfPage(cursorOf(more, next)))
		return encoder.size, nil
	})
	if err != nil {
		return answer{}, err
	}
	return ok(encodedPage{encoder.list, reserved}), nil
}

// entryForm is how entries are shown.
type entryForm struct {
	cancelled posthaste.State // the name of that state
	bodyLimit int             // bytes of a body
}

// trim returns what is shown of a body: empty bytes for none, because they are "" in JSON.
func (f entryForm) trim(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body[:min(len(body), f.bodyLimit)]
}

// view returns what is an entry's own.
func (f entryForm) view(entry *store.Entry) logEntry {
	view := logEntry{
		Time:           entry.Position.Time().UnixMilli(),
		State:          entry.State,
		Error:          entry.Error,
		loggedResponse: f.response(entry.Response),
	}
	if entry.State == posthaste.StateCancelled {
		view.State = f.cancelled
	}
	if entry.Attempt != (posthaste.Attempt{}) {
		view.Attempt = &loggedAttempt{entry.Attempt.Status, entry.Attempt.Took.Milliseconds()}
	}
	if !entry.NextDeliveryAt.IsZero() {
		view.NextDeliveryTime = entry.NextDeliveryAt.UnixMilli()
	}
	return view
}

// logEntry is an entry of the log (contract, 2.1 and messages 2.10) without
// what it says of its message.
type logEntry struct {
	Time             int64           `json:"time"` // Unix ms
	State            posthaste.State `json:"state"`
	Error            string          `json:"error,omitempty"`
	NextDeliveryTime int64           `json:"nextDeliveryTime,omitempty"` // Unix ms
	Attempt          *loggedAttempt  `json:"attempt,omitempty"`
	*loggedResponse
}

// loggedAttempt is what came of an attempt, also of one that delivered.
type loggedAttempt struct {
	Status   int   `json:"status,omitempty"` // 0: no response
	Duration int64 `json:"duration"`         // ms
}

// loggedResponse is what the destination answered. The headers have two names:
// the one of the contract, and the one an SDK reads.
type loggedResponse struct {
	Status         int         `json:"responseStatus"`
	Body           []byte      `json:"responseBody"` // base64
	Headers        http.Header `json:"responseHeaders"`
	HeadersForSDKs http.Header `json:"responseHeader"`
	Truncated      bool        `json:"responseTruncated,omitempty"` // the answer was larger than what is kept
}

// loggedMessage is the part of an entry that all entries of a message share.
// The expression has two names for the same reason as the response headers.
type loggedMessage struct {
	messageFields
	Header                 http.Header `json:"header"`
	Body                   any         `json:"body"`              // bytes, or the mark of a redacted one
	Timeout                int64       `json:"timeout,omitempty"` // ms
	CallbackHeaders        http.Header `json:"callbackHeaders,omitempty"`
	FailureCallbackHeaders http.Header `json:"failureCallbackHeaders,omitempty"`
	RetryDelayForSDKs      string      `json:"retryDelayExpr,omitempty"`
}

func (f entryForm) response(response *posthaste.Response) *loggedResponse {
	if response == nil {
		return nil
	}
	header := neverNil(posthaste.HeaderInJSON(response.Header))
	return &loggedResponse{
		Status:         response.Status,
		Body:           f.trim(response.Body),
		Headers:        header,
		HeadersForSDKs: header,
		Truncated:      response.Truncated,
	}
}

func (f entryForm) message(m *posthaste.Message) loggedMessage {
	logged := loggedMessage{
		messageFields:          newMessageFields(m),
		Header:                 neverNil(posthaste.HeaderInJSON(m.Redact.ShowHeader(m.Header))),
		Timeout:                m.Timeout.Milliseconds(),
		CallbackHeaders:        callbackHeader(m.Redact, m.Callback),
		FailureCallbackHeaders: callbackHeader(m.Redact, m.FailureCallback),
		RetryDelayForSDKs:      m.RetryDelay,
	}
	if m.Redact.Body && f.bodyLimit > 0 {
		logged.Body = posthaste.Redacted(m.Body)
	} else {
		logged.Body = f.trim(m.Body)
	}
	return logged
}

// neverNil returns an empty header for none, because that is {} in JSON.
func neverNil(header http.Header) http.Header {
	if header == nil {
		return http.Header{}
	}
	return header
}
