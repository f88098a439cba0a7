package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"posthaste"
)

// The status with which an endpoint of a run is refused decides about the run, because SDKs act
// on it (contract, workflows 3.6):
//
//	400    the run has ended: the SDK stops silently and responds 200
//	412    the SDK fails the run, with the error's sentence
//	other  the SDK responds 500, and the step is retried
//
// So 400 means CodeEnded only, and other 400s and 413s become 412 in serve, because a repetition
// would send the same (contract, decision 31).

// failRun returns the error that makes an SDK fail its run, if err is about what the SDK sent,
// else err.
func failRun(err error) error {
	switch posthaste.ErrorCode(err) {
	case posthaste.CodeInvalid, posthaste.CodeTooLarge:
		return &posthaste.Error{Code: posthaste.CodeLimit, Message: showable(err).Message, Err: err}
	default:
		return err
	}
}

// isForRun reports whether endpoints of running workflows send such requests. Notifications have
// no sender and count as such. Batches are decided by their items, and ends of runs by the query.
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

// continuesRun reports whether the headers are of an active run's step or invocation, not a
// trigger.
func continuesRun(header http.Header) bool {
	if runControl(header, controlRunID) == "" {
		return false
	}
	starts := strings.EqualFold(runControl(header, controlRunInit), "true")
	return !starts || strings.EqualFold(runControl(header, controlRunInvoke), "true")
}

// runControl returns a control of either family.
func runControl(header http.Header, suffix string) string {
	if value := header.Get(servicePrefix + suffix); value != "" {
		return value
	}
	return header.Get(upstashPrefix + suffix)
}

// readableHeader returns the readable headers of a batch item, which may be invalid.
func readableHeader(item json.RawMessage) http.Header {
	var fields struct {
		Headers map[string]json.RawMessage `json:"headers"`
	}
	_ = json.Unmarshal(item, &fields) // none if it is no object
	header := make(http.Header, len(fields.Headers))
	for name, raw := range fields.Headers {
		if values, err := texts(name, raw); err == nil {
			name = http.CanonicalHeaderKey(name)
			header[name] = append(header[name], values...)
		}
	}
	return header
}
