package api

import (
	"net/http"
	"strings"

	"posthaste"
	"posthaste/internal/api/wire"
)

// eventID returns the event id in the path (contract, workflows D 21).
func (r *request) eventID() (string, error) {
	id := r.pathText("event")
	if id == "" || len(id) > posthaste.MaxEventIDLen || strings.Contains(id, "/") {
		return "", posthaste.Invalidf("event id %.100q is not a text of 1 to %d bytes without a slash", id, posthaste.MaxEventIDLen)
	}
	return id, nil
}

// wait makes a step wait for an event.
func (a *api) wait(r *request, eventID string) (answer, error) {
	c, err := r.collectControls()
	if err != nil {
		return answer{}, err
	}
	var body wire.WaitBody
	if err := r.requireJSON(&body); err != nil {
		return answer{}, err
	}
	req, err := a.decoder.WaitRequest(&body, c, r.incoming())
	if err != nil {
		return answer{}, err
	}
	req.EventID = eventID
	id, err := a.options.Workflows.Wait(r.Context(), r.user, req)
	return ok(receiptView{MessageID: id}), err
}

// waiterView is a waiter as shown (contract, workflows 6.5).
type waiterView struct {
	URL            string      `json:"url"`
	Headers        http.Header `json:"headers"`
	Deadline       int64       `json:"deadline"` // Unix s
	TimeoutBody    []byte      `json:"timeoutBody,omitempty"`
	TimeoutURL     string      `json:"timeoutUrl"`
	TimeoutHeaders http.Header `json:"timeoutHeaders"`
}

func newWaiterView(w *posthaste.Waiter) waiterView {
	view := waiterView{
		URL:            w.Shown.URL,
		Headers:        posthaste.HeaderInJSON(showForwarded(w.Delivery.Redact, w.Shown.Header)),
		Deadline:       w.Deadline.Unix(),
		TimeoutBody:    w.Shown.TimeoutBody,
		TimeoutURL:     w.TimeoutURL,
		TimeoutHeaders: posthaste.HeaderInJSON(showForwarded(w.Delivery.Redact, w.Shown.TimeoutHeader)),
	}
	if w.Delivery.Redact.Body && len(view.TimeoutBody) > 0 {
		view.TimeoutBody = []byte(posthaste.Redacted(view.TimeoutBody))
	}
	return view
}

// showForwarded redacts a request's headers that are to be forwarded, by their forwarded names.
func showForwarded(redact posthaste.Redaction, header http.Header) http.Header {
	shown := make(http.Header, len(header))
	for name, values := range header {
		if _, forwarded, is := strings.Cut(name, "-"+wire.ForwardPrefix); is {
			values = redact.ShowHeader(http.Header{forwarded: values})[forwarded]
		}
		shown[name] = values
	}
	return shown
}

// listWaiters lists the waiters for an event, oldest first.
func (a *api) listWaiters(r *request, eventID string) (answer, error) {
	waiters, err := a.options.Workflows.EventWaiters(r.Context(), r.user, eventID)
	return ok(views(waiters, newWaiterView)), err
}
