package app

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestReadinessForClients checks that the question of an SDK has the answer that
// /readyz has.
func TestReadinessForClients(t *testing.T) {
	const reason = "not ready: the store rejects writes"
	tests := map[string]struct {
		broken            bool
		status            int
		readyz, readiness string
	}{
		"ready":     {false, http.StatusOK, "ready", `{"ready":true}`},
		"not ready": {true, http.StatusServiceUnavailable, reason, `{"ready":false,"error":"` + reason + `"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, _ := start(t, t.TempDir())
			if test.broken {
				if err := server.store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for path, want := range map[string]string{
				"/readyz":         test.readyz,
				"/v2/readiness":   test.readiness,
				"//v2/readiness/": test.readiness,
			} {
				got := ask(server.server.Handler, http.MethodGet, path)
				if got.Code != test.status || strings.TrimSpace(got.Body.String()) != want {
					t.Errorf("%s answers %d %s, want %d %s", path, got.Code, got.Body, test.status, want)
				}
			}
			if got := ask(server.server.Handler, http.MethodGet, "/v2/liveness"); got.Code != http.StatusOK {
				t.Errorf("/v2/liveness answers %d %s, want 200 whether the server is ready or not", got.Code, got.Body)
			}
		})
	}
}

// TestHead checks that HEAD is GET without the body (RFC 9110, 9.3.2).
func TestHead(t *testing.T) {
	_, url := start(t, t.TempDir())
	tests := map[string]struct {
		path   string
		status int
	}{
		"a list":            {"/v2/queues", http.StatusOK},
		"a page":            {"/v2/logs", http.StatusOK},
		"an error":          {"/v2/messages/msg_unknown", http.StatusNotFound},
		"an odd slash":      {"/v2/schedules/", http.StatusOK},
		"an open one":       {"/v2/readiness", http.StatusOK},
		"what none can get": {"/v2/publish/https://example.com", http.StatusMethodNotAllowed},
		"what is not there": {"/v2/nothing", http.StatusNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			head, get := fetch(t, http.MethodHead, url+test.path), fetch(t, http.MethodGet, url+test.path)
			if head.status != test.status || head.body != "" {
				t.Errorf("HEAD answers %d %q, want %d without a body", head.status, head.body, test.status)
			}
			if get.status != test.status || get.contentType != head.contentType {
				t.Errorf("HEAD answers %d of type %q, GET %d of type %q", head.status, head.contentType, get.status, get.contentType)
			}
		})
	}
}

// fetched is an answer.
type fetched struct {
	status            int
	contentType, body string
}

func fetch(t *testing.T, method, url string) fetched {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fetched{response.StatusCode, response.Header.Get("Content-Type"), strings.TrimSpace(string(body))}
}
