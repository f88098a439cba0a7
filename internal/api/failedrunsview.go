package api

import (
	"cmp"
	"net/http"

	"posthaste"
	"posthaste/internal/workflow"
)

// failedRunView is an entry of the DLQ of runs as it is read (contract, workflows
// 5.3): the message that failed, with what was sent, and where the failure callback of
// its run stands.
type failedRunView struct {
	deadLetterView
	FailureFunctionState posthaste.CallbackState `json:"failureFunctionState,omitempty"`
	FailureCallbackInfo  *callbackInfo           `json:"failureCallbackInfo,omitempty"`
}

// callbackInfo is where a failure callback stands, and its last answer.
type callbackInfo struct {
	State              posthaste.CallbackState `json:"state"`
	ResponseStatus     int                     `json:"responseStatus,omitempty"`
	ResponseHeaders    http.Header             `json:"responseHeaders,omitempty"`
	ResponseBody       string                  `json:"responseBody,omitempty"`       // if it is text
	ResponseBodyBase64 string                  `json:"responseBodyBase64,omitempty"` // if it is not
	ResponseTruncated  bool                    `json:"responseTruncated,omitempty"`  // it was larger than what is kept
	Error              string                  `json:"error,omitempty"`
}

func newFailedRunView(run *posthaste.Run, d *posthaste.DeadLetter, limit bodyLimit) failedRunView {
	m, shown := *d.Message, *d
	m.Header = workflow.SentHeader(run, d.Message)
	m.CallerIP, m.Labels = run.CallerIP, run.Labels
	m.FailureCallback = cmp.Or(m.FailureCallback, run.FailureCallback)
	shown.Message = &m
	view := failedRunView{deadLetterView: newDeadLetterView(&shown, limit)}
	if run.Reported != nil {
		view.FailureFunctionState = run.Reported.State
		view.FailureCallbackInfo = newCallbackInfo(run.Reported, limit)
	}
	return view
}

func newCallbackInfo(c *posthaste.RunCallback, limit bodyLimit) *callbackInfo {
	info := &callbackInfo{State: c.State, Error: c.Error}
	if c.Response != nil {
		info.ResponseStatus, info.ResponseHeaders = c.Response.Status, posthaste.HeaderInJSON(c.Response.Header)
		info.ResponseBody, info.ResponseBodyBase64 = limit.textOrBase64(c.Response.Body)
		info.ResponseTruncated = c.Response.Truncated
	}
	return info
}
