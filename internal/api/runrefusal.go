package api

import (
	"net/http"
	"strings"

	"posthaste"
	"posthaste/internal/api/wire"
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
		return wire.ContinuesRun(header)
	default:
		return false
	}
}
