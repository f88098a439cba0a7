package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

// TestOverrides checks what controls override, and that nothing else is kept.
func TestOverrides(t *testing.T) {
	given := http.Header{
		"Authorization":              {"Bearer secret"},
		"Content-Type":               {"application/json"},
		"Upstash-Retries":            {"3"},
		"Service-Retries":            {"0"},
		"Upstash-Delay":              {"1m"},
		"Upstash-Not-Before":         {"1700000000"},
		"Upstash-Flow-Control-Value": {"rate=1"},
		"Service-Forward-X":          {"a", "b"},
		"Upstash-Callback":           {"https://example.com/cb"},
		"Upstash-Callback-Retries":   {"1"},
		"Upstash-Telemetry-Sdk":      {"x"},
	}
	got, err := overridesOf(given)
	if err != nil {
		t.Fatal(err)
	}
	want := posthaste.Overrides{
		Delay:     time.Minute,
		NotBefore: time.Unix(1_700_000_000, 0),
		Settings: posthaste.Settings{
			Header:      http.Header{"X": {"a", "b"}},
			Retries:     new(int),
			FlowControl: posthaste.FlowControl{FlowLimit: posthaste.FlowLimit{Rate: 1}},
			Callback: &posthaste.Callback{
				URL:      "https://example.com/cb",
				Settings: posthaste.Settings{Retries: ptr(1)},
				Given:    http.Header{"Upstash-Callback-Retries": {"1"}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overrides differ (-want +got):\n%s", diff)
	}
}

// overridesOf returns the overrides in headers.
func overridesOf(header http.Header) (posthaste.Overrides, error) {
	c, err := collectControls(header, nil)
	if err != nil {
		return posthaste.Overrides{}, err
	}
	return decoder{checkHost: allowAll}.overrides(c)
}

func ptr[T any](value T) *T { return &value }

func TestOverridesRefuses(t *testing.T) {
	for name, header := range map[string]http.Header{
		"a value that no header has": {"Upstash-Label": {"a\nb"}},
		"a bad time":                 {"Upstash-Delay": {"x"}},
		"a bad setting":              {"Upstash-Retries": {"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := overridesOf(header); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestWithDefaults checks what becomes of defaults that were stored by an earlier
// version with other rules.
func TestWithDefaults(t *testing.T) {
	if _, err := (controls{}).withDefaults(http.Header{"Upstash-Label": {"a\nb"}}); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Errorf("error %v", err)
	}
	c, err := controls{dialect: posthaste.DialectService}.withDefaults(http.Header{"Upstash-Label": {"a"}})
	if err != nil || c.dialect != posthaste.DialectService || c.values["Label"].text() != "a" {
		t.Errorf("%+v, %v", c, err)
	}
}

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

func TestTexts(t *testing.T) {
	tests := []struct{ json, want string }{
		{`"a"`, `["a"]`},
		{`"ä\n"`, `["ä\n"]`},
		{`17`, `["17"]`},
		{`1.50`, `["1.50"]`},
		{`1e400`, `["1e400"]`},
		{`true`, `["true"]`},
		{`null`, `[]`},
		{`[]`, `[]`},
		{`["a", 2, null, false]`, `["a","2","false"]`},
		{`{}`, `error x is {}, a string or an array of strings is expected`},
		{`[["a"]]`, `error x is [["a"]], a string or an array of strings is expected`},
		{`["a",{}]`, `error x is ["a",{}], a string or an array of strings is expected`},
	}
	for _, test := range tests {
		t.Run(test.json, func(t *testing.T) {
			got, err := texts("x", json.RawMessage(test.json))
			text := "error " + errorText(err)
			if err == nil {
				text = strings.TrimSpace(string(encodeJSON(got)))
			}
			if text != test.want {
				t.Errorf("texts(%s) = %s, want %s", test.json, text, test.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// bodyOf returns a request with a body.
func bodyOf(text string) *request {
	r := httptest.NewRequest(http.MethodDelete, "/v2/dlq?label=query", strings.NewReader(text))
	return &request{Request: r, writer: httptest.NewRecorder(), rest: r.URL.RawQuery, requests: openGate{}, bodyBytes: openGate{}, readers: allAtOnce{}}
}
