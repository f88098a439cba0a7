package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"posthaste/internal/api"
)

// TestNoRoute checks that who takes a wrong way is told the right ones, with a
// token or without (contract, messages 2.1).
func TestNoRoute(t *testing.T) {
	const everything = "/v2/publish, /v2/enqueue, /v2/batch, /v2/messages, /v2/queues, /v2/topics, /v2/schedules, /v2/ticks, /v2/dlq, "
	tests := []struct{ name, path, want string }{
		{"an unknown name", "/v2/nothing", "the closest ones begin with " + everything},
		{"no name", "/v2/", "the closest ones begin with " + everything},
		{"too short", "/v2/publish", "the closest ones begin with /v2/publish/"},
		{"too short by far", "/v2/enqueue", "the closest ones begin with /v2/enqueue/{queue}"},
		{"a queue without a destination", "/v2/enqueue/q", "the closest ones begin with /v2/enqueue/{queue}/"},
		{"too long", "/v2/logs/1", "the closest ones begin with /v2/logs"},
		{"one that no source knows", "/v2/workflows/messageLogs", "the closest ones begin with /v2/workflows/"}, // (D 29)
		{"a wrong end", "/v2/queues/q/stop", "the closest ones begin with /v2/queues/{queue}, /v2/queues/{queue}/pause, /v2/queues/{queue}/resume"},
		{"wrong letter case", "/v2/FlowControl", "the closest ones begin with /v2/flowControl, /v2/flowControl/"},
		{"without the version", "/publish/https://example.com", "all routes begin with /v2/"},
		{"another version", "/v1/publish/https://example.com", "all routes begin with /v2/"},
	}
	handler := newSurface(t, &published{}, nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := do(handler, newRequest("GET", test.path, nil))
			want := `{"error":"there is no route \"` + test.path + `\": ` + test.want
			if got.Code != http.StatusNotFound || !strings.HasPrefix(got.Body.String(), want) {
				t.Errorf("%d %s, want %s…", got.Code, got.Body, want)
			}
		})
	}
}

// TestWrongMethod checks that who comes with the wrong method is told the right
// ones.
func TestWrongMethod(t *testing.T) {
	tests := []struct{ name, method, path, want string }{
		{"one", "GET", "/v2/publish/https://example.com", "POST"},
		{"some", "POST", "/v2/messages/msg_1", "GET, HEAD, DELETE"},
		{"what can be got has HEAD too", "PUT", "/v2/logs", "GET, HEAD"},
		{"a name beside ids", "GET", "/v2/workflows/dlq/restart", "POST"},
		{"a name and a slash", "GET", "/v2/workflows/dlq/resume/", "POST"},
		{"deleting a name", "DELETE", "/v2/workflows/dlq/resume", "POST"},
		{"a name beside ids of messages", "GET", "/v2/dlq/retry", "POST"},
		{"one that HTTP does not know", "BREW", "/v2/logs/", "GET, HEAD"},
	}
	handler := newSurface(t, &published{}, nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := do(handler, newRequest(test.method, test.path, nil))
			want := `{"error":"` + test.method + ` is not a method of \"` + test.path + `\", use ` + test.want + `"}` + "\n"
			if got.Code != http.StatusMethodNotAllowed || got.Body.String() != want || got.Header().Get("Allow") != test.want {
				t.Errorf("%d %s allowing %q, want %s", got.Code, got.Body, got.Header().Get("Allow"), want)
			}
		})
	}
}

// TestNotReady checks the answer of a server that does not do its work; nobody
// needs a token to ask.
func TestNotReady(t *testing.T) {
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.Ready = func() error { return errors.New("not ready: a test") }
	})
	got := do(handler, newRequest("GET", "/v2/readiness", nil))
	if want := `{"ready":false,"error":"not ready: a test"}` + "\n"; got.Code != http.StatusServiceUnavailable || got.Body.String() != want {
		t.Errorf("%d %s, want 503 %s", got.Code, got.Body, want)
	}
}
