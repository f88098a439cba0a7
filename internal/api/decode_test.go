package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"posthaste"
)

// Contract, decision 19.
func TestActionView(t *testing.T) {
	action := posthaste.BulkAction{
		ID:        "act_1",
		Kind:      posthaste.ActionCancel,
		Filter:    posthaste.Filter{Labels: []string{"secret"}},
		Overrides: posthaste.Overrides{Settings: posthaste.Settings{Header: http.Header{"Authorization": {"secret"}}}},
		Asked:     url.Values{"label": {"a", "b"}},
		Total:     5,
		Processed: 2,
		Failed:    1,
		Failures:  []posthaste.ActionFailure{{ID: "msg_1", Error: "no"}},
		Cursor:    posthaste.ActionCursor{Live: "secret"},
		CreatedAt: time.UnixMilli(1000),
	}
	finished := action
	finished.Kind, finished.Asked, finished.CompletedAt = posthaste.ActionRetry, nil, time.UnixMilli(2000)
	cancelled := finished
	cancelled.Cancelled = true
	tests := map[string]struct {
		action posthaste.BulkAction
		want   string
	}{
		"going on": {action, `{"actionId":"act_1","kind":"cancel","state":"IN_PROGRESS","total":5,"processed":2,"failed":1,` +
			`"failures":[{"messageId":"msg_1","error":"no"}],"createdAt":1000,"filter":{"label":["a","b"]}}`},
		"finished": {finished, `{"actionId":"act_1","kind":"retry","state":"FINISHED","total":5,"processed":2,"failed":1,` +
			`"failures":[{"dlqId":"msg_1","error":"no"}],"createdAt":1000,"completedAt":2000,"filter":{}}`},
		"cancelled": {cancelled, `{"actionId":"act_1","kind":"retry","state":"CANCELED","total":5,"processed":2,"failed":1,` +
			`"failures":[{"dlqId":"msg_1","error":"no"}],"createdAt":1000,"completedAt":2000,"filter":{}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.TrimSpace(string(encodeJSON(newActionView(&test.action)))); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// Contract, messages 2.7.
func TestTickStates(t *testing.T) {
	want := map[posthaste.State]tickState{
		posthaste.StateCreated:         tickInProgress,
		posthaste.StateActive:          tickInProgress,
		posthaste.StateRetry:           tickInProgress,
		posthaste.StateError:           tickInProgress,
		posthaste.StateCancelRequested: tickInProgress,
		posthaste.StateDelivered:       tickSuccess,
		posthaste.StateFailed:          tickFail,
		posthaste.StateCancelled:       tickFail,
	}
	for _, state := range posthaste.States {
		id := posthaste.MessageID{1}
		if got := tickStates(map[posthaste.MessageID]posthaste.State{id: state})[id]; got != want[state] {
			t.Errorf("%s is shown as %s, want %s", state, got, want[state])
		}
	}
}

// bodyOf returns a request with a body.
func bodyOf(text string) *request {
	r := httptest.NewRequest(http.MethodDelete, "/v2/dlq?label=query", strings.NewReader(text))
	return &request{Request: r, writer: httptest.NewRecorder(), rest: r.URL.RawQuery, requests: openGate{}, bodyBytes: openGate{}, readers: allAtOnce{}}
}
