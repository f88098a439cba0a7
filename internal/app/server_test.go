package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestRoutes(t *testing.T) {
	say := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, what) })
	}
	handler := &routes{api: say("api"), ready: say("ready"), metrics: say("metrics")}
	tests := map[string]struct{ path, want string }{
		"health":                     {"/healthz", "ok\n"},
		"readiness":                  {"/readyz", "ready"},
		"metrics":                    {"/metrics", "metrics"},
		"the interface":              {"/v2/logs", "api"},
		"a destination with slashes": {"/v2/publish/https://example.com//a/../b", "api"},
		"a doubled slash":            {"//v2/logs", "api"},
		"what nobody knows":          {"/healthz/more", "api"},
		"the root":                   {"/", `{"api":"/v2/","console":"/console","docs":"/docs","openapi":"/openapi.yaml"}` + "\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ask(handler, http.MethodGet, test.path)
			if got.Code != http.StatusOK || got.Body.String() != test.want {
				t.Errorf("%s answers %d %q, want %q", test.path, got.Code, got.Body, test.want)
			}
		})
	}
}

// TestBodiesThatNobodyReadsAreNotWaitedFor sends a body to everything that answers without
// a token. What reads its body keeps the time that the server gives it.
func TestBodiesThatNobodyReadsAreNotWaitedFor(t *testing.T) {
	silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	all := permissive(&routes{api: silent, ready: silent, metrics: silent, console: silent, docs: silent})
	tests := map[string]struct {
		handler      http.Handler
		method, path string
		body         string
		bounded      bool
	}{
		"health":                 {all, http.MethodPost, "/healthz", "x", true},
		"readiness":              {all, http.MethodPost, "/readyz", "x", true},
		"metrics":                {all, http.MethodPost, "/metrics", "x", true},
		"the console":            {all, http.MethodPost, "/console/", "x", true},
		"the reference":          {all, http.MethodPost, "/docs", "x", true},
		"a preflight":            {all, http.MethodOptions, "/v2/queues", "x", true},
		"a database that is not": {new(front), http.MethodPost, "/v2/queues", "x", true},
		"the interface":          {all, http.MethodPost, "/v2/queues", "x", false},
		"health without a body":  {all, http.MethodGet, "/healthz", "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, test.path, strings.NewReader(test.body))
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
			w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
			test.handler.ServeHTTP(w, r)
			if w.bounded != test.bounded {
				t.Errorf("answered %d; the wait for the body is bounded: %t, want %t", w.Code, w.bounded, test.bounded)
			}
		})
	}
}

// deadlineWriter notes whether the reading of a body was bounded before it was answered.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	begun, bounded bool
}

func (w *deadlineWriter) WriteHeader(status int) {
	w.begun = true
	w.ResponseRecorder.WriteHeader(status)
}

// SetReadDeadline is called by http.ResponseController.
func (w *deadlineWriter) SetReadDeadline(at time.Time) error {
	w.bounded = !w.begun && !at.IsZero()
	return nil
}
