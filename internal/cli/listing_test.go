package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLogsCount shows the latest entries to people, and all of them to programs.
func TestLogsCount(t *testing.T) {
	for command, want := range map[string]int{
		"logs --output=json":              100,
		"logs --output=ndjson":            180,
		"logs --output=ndjson --count=70": 70,
		"logs --output=json --count=0":    180,
	} {
		t.Run(command, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next := map[string]string{"": "p1", "p1": "p2", "p2": ""}[r.FormValue("cursor")]
				entries := strings.TrimSuffix(strings.Repeat(`{"state":"CREATED"},`, 60), ",")
				_, _ = fmt.Fprintf(w, `{"events":[%s],"cursor":%q}`, entries, next)
			}))
			defer server.Close()
			var out, err bytes.Buffer
			code := run(append(strings.Fields(command), "--url="+server.URL), terminal{&out, &err})
			if got := strings.Count(out.String(), "CREATED"); code != 0 || got != want {
				t.Errorf("code %d, %d entries, want %d; %s", code, got, want, &err)
			}
		})
	}
}

// TestListsSayHowToGoOn lists more pages than the server gives.
func TestListsSayHowToGoOn(t *testing.T) {
	tests := map[string]struct{ name, path string }{
		"logs":      {"events", "/v2/logs"},
		"dlq list":  {"messages", "/v2/workflows/dlq"},
		"runs list": {"runs", "/v2/workflows/logs"},
	}
	for command, list := range tests {
		t.Run(command, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != list.path || r.FormValue("cursor") != "" {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = fmt.Fprintf(w, `{%q:[{"n":1}],"cursor":"p1"}`, list.name)
			}))
			defer server.Close()
			var out, err bytes.Buffer
			args := append(strings.Fields(command), "--count=0", "--output=ndjson", "--url="+server.URL)
			code := run(args, terminal{&out, &err})
			const want = "posthaste: the list is incomplete, use --cursor p1 to continue: " +
				"the server answers 503: Service Unavailable, and no more: is it a Posthaste server?\n"
			if code != exitFailure || out.String() != "{\"n\":1}\n" || err.String() != want {
				t.Errorf("code %d\n%s%s\nwant %s", code, &out, &err, want)
			}
		})
	}
}

// TestFilterWithComma checks that a value with a comma reaches the server as one where it may
// be one, and as the list that it is elsewhere.
func TestFilterWithComma(t *testing.T) {
	var c logsCommand
	c.FlowControlKey, c.State = []string{"eu,prod", "us"}, []string{"ERROR,FAILED"}
	if got, want := params(c).Encode(), "flowControlKey=us&flowControlKey%5B%5D=eu%2Cprod&state=ERROR%2CFAILED"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
