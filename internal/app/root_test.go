package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRoot asks for / as browsers and as other clients do.
func TestRoot(t *testing.T) {
	server, _ := start(t, t.TempDir())
	for name, c := range map[string]struct {
		method, accept string
		status         int
		location, body string
	}{
		"a browser":      {"GET", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 302, "/console", ""},
		"curl":           {"GET", "*/*", 200, "", `{"api":"/v2/","console":"/console"`},
		"asked for JSON": {"GET", "application/json", 200, "", `{"api":"/v2/"`},
		"no wish":        {"HEAD", "", 200, "", ""},
		"a change":       {"POST", "text/html", 405, "", `{"error":"/ accepts only GET and HEAD`},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(c.method, "/", nil)
			request.Header.Set("Accept", c.accept)
			answer := httptest.NewRecorder()
			server.server.Handler.ServeHTTP(answer, request)
			if answer.Code != c.status || answer.Header().Get("Location") != c.location || !strings.HasPrefix(answer.Body.String(), c.body) {
				t.Errorf("answer = %d to %q %s, want %d to %q %s", answer.Code, answer.Header().Get("Location"), answer.Body, c.status, c.location, c.body)
			}
		})
	}
}

// TestNothingIsCached looks at answers with secrets, and at errors, which tell of them.
func TestNothingIsCached(t *testing.T) {
	server, url := start(t, t.TempDir())
	for _, target := range []string{"GET /v2/keys", "POST /v2/keys/rotate", "GET /v2/logs", "GET /v2/dlq", "GET /v2/schedules", "GET /v2/nothing", "GET /"} {
		method, path, _ := strings.Cut(target, " ")
		request, err := http.NewRequest(method, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		server.server.Handler.ServeHTTP(answer, request)
		if got := answer.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s is answered %d with Cache-Control %q, want no-store", target, answer.Code, got)
		}
	}
}
