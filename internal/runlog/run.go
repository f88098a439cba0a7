package runlog

import (
	"encoding/json"
	"net/http"
	"time"

	"posthaste"
)

type view struct {
	*Facts
	display
}

// Show returns a run as shown, with up to bodyLimit bytes of each body. It is a pure function.
func (f *Facts) Show(bodyLimit int) *Run {
	v := view{f, display{f.Run.Redact, bodyLimit}}
	r := f.Run
	shown := &Run{
		ID:          r.ID,
		URL:         r.URL,
		State:       r.State,
		CreatedAt:   r.CreatedAt.UnixMilli(),
		CompletedAt: millis(r.CompletedAt),
		CallerIP:    r.CallerIP,
		Response:    v.result(r.Result),
		DLQID:       letterID(r.DeadLetterID),
		FlowKey:     r.FlowControl.Key,
		Labels:      newLabels(r.Labels),
		Invoker:     newRef(r.Invoker),
		Successor:   newRef(r.Successor),
		Failure:     v.failure(),
		Groups:      v.groups(),
	}
	if r.Origin != nil {
		origin := &Origin{*newRef(&r.Origin.RunRef), letterID(r.Origin.DeadLetterID)}
		if f.resumed() {
			shown.ResumeOf = origin
		} else {
			shown.RestartOf = origin
		}
	}
	return shown
}

// resumed reports whether the run resumed an earlier one, whose message then is that of the first
// entry.
func (f *Facts) resumed() bool {
	return f.Run.Origin != nil && f.Entries[0].MessageID != f.Run.FirstID
}

// failure returns the failure callback, nil if there is no failure function (contract, workflows
// D 26).
func (v view) failure() *Failure {
	reported := v.Run.Reported
	if reported == nil || reported.NotFound {
		return nil
	}
	shown := &Failure{
		MessageID:  reported.MessageID,
		URL:        reported.URL,
		State:      reported.State,
		DLQID:      letterID(v.Run.DeadLetterID),
		FailStatus: v.Run.FailedStatus,
		FailHeader: http.Header{},
		Errors:     v.errors(reported.MessageID),
	}
	if failed := v.errors(v.Run.FailedID); len(failed) > 0 {
		last := failed[len(failed)-1]
		shown.FailHeader, shown.FailStatus, shown.FailResponse = last.Header, last.Status, last.Body
	}
	if answer := reported.Response; answer != nil {
		shown.ResponseStatus, shown.ResponseHeader = answer.Status, posthaste.HeaderInJSON(answer.Header)
		shown.ResponseBody = v.response(answer.Body)
	}
	if st, known := v.Messages[reported.MessageID]; known {
		shown.MaxRetries, shown.NextAt = st.Message.MaxRetries(), v.nextAt(st)
	}
	return shown
}

// errors returns the failed attempts of a message.
func (v view) errors(id posthaste.MessageID) []Error {
	attempts := v.Errors[id]
	var shown []Error
	for i, attempt := range attempts {
		status := http.StatusServiceUnavailable
		if i == len(attempts)-1 && v.failedBy(id) {
			status = v.Run.FailedStatus
		}
		shown = append(shown, v.attempt(attempt, status))
	}
	return shown
}

// attempt returns a failed attempt. Without response, it gets one with the given status, because
// SDKs expect one (contract, workflows D 17).
func (d display) attempt(event posthaste.Event, unanswered int) Error {
	answer := event.Response
	if answer == nil {
		answer = noResponse(unanswered, event.Error)
	}
	header := posthaste.HeaderInJSON(answer.Header)
	if header == nil {
		header = http.Header{} // {} in JSON
	}
	return Error{
		Error:  event.Error,
		Body:   d.response(answer.Body),
		Header: header,
		Status: answer.Status,
		Time:   event.Position.Time().UnixMilli(),
	}
}

// noResponse stands for a missing response.
func noResponse(status int, reason string) *posthaste.Response {
	body, _ := json.Marshal(map[string]string{"error": http.StatusText(status), "message": reason}) // texts always can
	return &posthaste.Response{Status: status, Body: body}
}

func newLabels(labels []string) Labels {
	if len(labels) == 0 {
		return Labels{}
	}
	return Labels{First: labels[0], All: labels}
}

func newRef(ref *posthaste.RunRef) *Ref {
	if ref == nil {
		return nil
	}
	return &Ref{ID: ref.ID, URL: ref.URL, CreatedAt: ref.CreatedAt.UnixMilli()}
}

func letterID(id posthaste.DeadLetterID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

// millis returns Unix milliseconds, 0 for no time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
