package telemetry_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/telemetry"
)

func TestRequestsAreCountedByClass(t *testing.T) {
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	silent := func(http.ResponseWriter, *http.Request) {}
	body := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }
	tests := map[string]struct {
		path    string
		handler http.HandlerFunc
		want    string
	}{
		"publish with its destination": {"/v2/publish/https://example.com/a", answer(202), "route=publish,status=2xx"},
		"doubled slash":                {"//v2/messages/msg_1", answer(404), "route=messages,status=4xx"},
		"legacy name of the log":       {"/v2/events", body, "route=logs,status=2xx"},
		"letter case":                  {"/v2/Schedules/x", answer(200), "route=schedules,status=2xx"},
		"nothing written":              {"/v2/keys", silent, "route=keys,status=2xx"},
		"informational, then final": {"/v2/logs", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "route=logs,status=5xx"},
		"unknown below v2":    {"/v2/nonsense-1234", answer(404), "route=other,status=4xx"},
		"outside v2":          {"/publish", answer(404), "route=other,status=4xx"},
		"status out of range": {"/v2/keys", answer(999), "route=keys,status=other"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			handler := telemetry.NewRequests(registry).Count(test.handler)
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.URL.Path = test.path
			handler.ServeHTTP(httptest.NewRecorder(), request)

			want := map[string]float64{"posthaste_http_requests_total{" + test.want + "}": 1, "posthaste_http_request_seconds{" + test.want + "}_count": 1}
			if diff := cmp.Diff(want, counted(t, registry)); diff != "" {
				t.Errorf("count (-want +got):\n%s", diff)
			}
		})
	}
}

// counted is gather without the sums of times.
func counted(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	values := gather(t, registry)
	maps.DeleteFunc(values, func(name string, _ float64) bool { return strings.HasSuffix(name, "_sum") })
	return values
}

func TestStreamsAreNotTimed(t *testing.T) {
	registry := prometheus.NewRegistry()
	handler := telemetry.NewRequests(registry).Count(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v2/logs/stream", nil))
	want := map[string]float64{"posthaste_http_requests_total{route=logs,status=2xx}": 1}
	if diff := cmp.Diff(want, counted(t, registry)); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
}

func TestRequestsCountPanics(t *testing.T) {
	registry := prometheus.NewRegistry()
	handler := telemetry.NewRequests(registry).Count(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { _ = recover() }()
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v2/logs", nil))
	}()
	want := map[string]float64{"posthaste_http_requests_total{route=logs,status=5xx}": 1, "posthaste_http_request_seconds{route=logs,status=5xx}_count": 1}
	if diff := cmp.Diff(want, counted(t, registry)); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
}

func TestRequestsLeaveTheConnectionReachable(t *testing.T) {
	var err error
	handler := telemetry.NewRequests(prometheus.NewRegistry()).Count(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		err = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute))
	}))
	server := httptest.NewServer(handler)
	defer server.Close()
	response, failure := http.Get(server.URL)
	if failure != nil {
		t.Fatal(failure)
	}
	_ = response.Body.Close()
	if err != nil {
		t.Errorf("set a deadline through the counting handler: %v", err)
	}
}
