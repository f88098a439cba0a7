package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTablesHaveNoBodies checks that bodies, which may be large, are asked for only where
// they are written.
func TestTablesHaveNoBodies(t *testing.T) {
	tests := map[string]string{ // the trimBody of each command
		"logs":                                 "-1",
		"logs --output=ndjson":                 "",
		"runs list":                            "-1",
		"runs list --output=json":              "",
		"dlq list":                             "-1",
		"dlq list --output=json":               "",
		"dlq messages list":                    "-1",
		"dlq messages list --output=ndjson":    "",
		"dlq messages show 1-1":                "",
		"dlq messages retry --all --dry-run":   "-1",
		"dlq messages delete 1-1 --dry-run":    "-1",
		"dlq messages retry 1-1 --output=json": "",
	}
	for command, want := range tests {
		t.Run(command, func(t *testing.T) {
			var got []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v2/usage" { // how much the other DLQ holds
					got = append(got, r.URL.Query().Get("trimBody"))
				}
				_, _ = w.Write([]byte("{}"))
			}))
			defer server.Close()
			var out, err bytes.Buffer
			run(append(strings.Fields(command), "--url="+server.URL), terminal{&out, &err})
			if len(got) == 0 || got[len(got)-1] != want {
				t.Errorf("bodies are trimmed to %q, want %q; %s", got, want, &err)
			}
		})
	}
}
