package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
	"posthaste/internal/workflow"
)

// eventID returns the event id in the path (contract, workflows D 21).
func (r *request) eventID() (string, error) {
	id := r.pathText("event")
	if id == "" || len(id) > posthaste.MaxEventIDLen || strings.Contains(id, "/") {
		return "", posthaste.Invalidf("event id %.100q is not a text of 1 to %d bytes without a slash", id, posthaste.MaxEventIDLen)
	}
	return id, nil
}

// waitBody is the body of a request to wait (contract, workflows 4.6).
type waitBody struct {
	URL            string                     `json:"url"`
	Timeout        json.RawMessage            `json:"timeout"`
	TimeoutURL     string                     `json:"timeoutUrl"`
	TimeoutHeaders map[string]json.RawMessage `json:"timeoutHeaders"`
	TimeoutBody    json.RawMessage            `json:"timeoutBody"`
	Step           json.RawMessage            `json:"step"`
}

// wait makes a step wait for an event.
func (a *api) wait(r *request) (answer, error) {
	eventID, err := r.eventID()
	if err != nil {
		return answer{}, err
	}
	c, err := collectControls(r.Header, r.reserved)
	if err != nil {
		return answer{}, err
	}
	var body waitBody
	if err := r.requireJSON(&body); err != nil {
		return answer{}, err
	}
	req, err := a.decoder.waitRequest(&body, c, r.incoming())
	if err != nil {
		return answer{}, err
	}
	req.EventID = eventID
	id, err := a.options.Workflows.Wait(r.Context(), r.user, req)
	return ok(receiptView{MessageID: id}), err
}

// waitRequest reads everything but the event. The request's headers are those of the delivery
// with the event.
func (d decoder) waitRequest(body *waitBody, c controls, in incoming) (req workflow.WaitRequest, err error) {
	if req.Run, err = decodeRunID(c); err != nil {
		return req, err
	}
	if req.Run.ID == "" {
		return req, posthaste.Invalidf("%s%s is missing, the id of the waiting workflow run is expected", upstashPrefix, controlRunID)
	}
	req.Features, req.FetchingSDK = c.features(), canFetch(c, in)
	if req.Delivery, err = d.delivery(c, in); err != nil {
		return req, err
	}
	req.Delivery.Header = runHeader(req.Delivery.Header)
	req.Shown.Header = in.withoutConnection()
	req.Shown.Header.Del("Authorization")
	if body.URL == "" {
		return req, posthaste.Invalidf("url is missing, the URL of the workflow is expected")
	}
	if req.Shown.URL, err = d.url("url", body.URL); err != nil {
		return req, err
	}
	if err := checkStep(body.Step); err != nil {
		return req, err
	}
	req.Step = body.Step
	return req, d.waitTimeout(&req, body)
}

// waitTimeout reads the timeout and its delivery.
func (d decoder) waitTimeout(req *workflow.WaitRequest, body *waitBody) (err error) {
	if req.Timeout, req.TimeoutText, err = parseWaitTimeout(body.Timeout); err != nil {
		return err
	}
	if req.TimeoutURL, err = d.url("timeoutUrl", cmp.Or(body.TimeoutURL, body.URL)); err != nil {
		return err
	}
	later, err := d.laterDelivery(body.TimeoutHeaders)
	if err != nil {
		return err
	}
	req.TimeoutDelivery, req.Shown.TimeoutHeader = later.settings, later.header
	req.Shown.TimeoutBody, err = jsonBody(body.TimeoutBody)
	return err
}

// defaultWait is the default timeout.
const defaultWait = "7d"

// parseWaitTimeout parses a duration or a number of seconds. 0 ends the wait at once.
func parseWaitTimeout(raw json.RawMessage) (timeout time.Duration, text string, err error) {
	text = defaultWait
	if len(raw) > 0 && string(raw) != "null" {
		list, err := texts("timeout", raw)
		if err != nil || len(list) != 1 {
			return 0, "", posthaste.Invalidf("timeout %.100s is not a duration such as 90s or 7d", raw)
		}
		text = list[0]
	}
	if timeout, err = backoff.ParseDuration(text); err != nil {
		return 0, "", posthaste.Invalidf("timeout %v", err)
	}
	return max(timeout, time.Millisecond), text, nil
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
		if _, forwarded, is := strings.Cut(name, "-"+forwardPrefix); is {
			values = redact.ShowHeader(http.Header{forwarded: values})[forwarded]
		}
		shown[name] = values
	}
	return shown
}

// listWaiters lists the waiters for an event, oldest first.
func (a *api) listWaiters(r *request) (answer, error) {
	eventID, err := r.eventID()
	if err != nil {
		return answer{}, err
	}
	waiters, err := a.options.Workflows.EventWaiters(r.Context(), r.user, eventID)
	return ok(views(waiters, newWaiterView)), err
}
