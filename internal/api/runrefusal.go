package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"posthaste"
)

// What the endpoint of a running workflow is refused with decides what becomes of its
// run, for SDKs act on the status (contract, workflows 3.6):
//
//	400    the run has ended: the SDK stops without a word and answers 200
//	412    the SDK lets the run fail, with the sentence of the error
//	other  the SDK answers 500, and the step is tried again
//
// So 400 is for CodeEnded alone. Where everybody else is told 400 or 413 an endpoint is
// told 412: a repetition would send the same. This is done in one place, serve, for
// whatever is refused on the way (contract, decision 31).

// failRun returns the error that makes an SDK fail its run where err is about what the
// SDK has sent, and err itself otherwise.
func failRun(err error) error {
	switch posthaste.ErrorCode(err) {
	case posthaste.CodeInvalid, posthaste.CodeTooLarge:
		return &posthaste.Error{Code: posthaste.CodeLimit, Message: showable(err).Message, Err: err}
	default:
		return err
	}
}

// isForRun reports whether a request is one that endpoints of running workflows send.
// A notification says nothing of its sender: it counts as one. What a batch is for is
// found out from its items, and how a run is ended from the query.
func (route route) isForRun(header http.Header) bool {
	switch _, path, _ := strings.Cut(route.pattern, " "); path {
	case "/v2/wait/{event}", "/v2/wait/", "/v2/notify/{event}", "/v2/notify/{run}/{event}", "/v2/notify/":
		return true
	case "/v2/publish/*", "/v2/enqueue/{queue}/*":
		return continuesRun(header)
	default:
		return false
	}
}

// continuesRun reports whether headers are those of a publication by a run that goes on:
// a step of it, or a run that it invokes. Clients trigger runs.
func continuesRun(header http.Header) bool {
	if runControl(header, controlRunID) == "" {
		return false
	}
	starts := strings.EqualFold(runControl(header, controlRunInit), "true")
	return !starts || strings.EqualFold(runControl(header, controlRunInvoke), "true")
}

// runControl returns the first value of a control of either family.
func runControl(header http.Header, suffix string) string {
	if value := header.Get(servicePrefix + suffix); value != "" {
		return value
	}
	return header.Get(upstashPrefix + suffix)
}

// readableHeader returns the headers of an item of a batch that can be read, though the
// item may be refused.
func readableHeader(item json.RawMessage) http.Header {
	var fields struct {
		Headers map[string]json.RawMessage `json:"headers"`
	}
	_ = json.Unmarshal(item, &fields) // of what is no object there are none
	header := make(http.Header, len(fields.Headers))
	for name, raw := range fields.Headers {
		if values, err := texts(name, raw); err == nil {
			name = http.CanonicalHeaderKey(name)
			header[name] = append(header[name], values...)
		}
	}
	return header
}
