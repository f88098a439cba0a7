package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDryRunTellsWhatStays checks that a dry run of a restart ends as the restart would,
// also if what would stay is on a later page.
func TestDryRunTellsWhatStays(t *testing.T) {
	const first = `{"dryRun":true,"total":3,"dlqIds":["1-1","1-2"],"cursor":"p1"%s}`
	const last = `{"dryRun":true,"total":1,"dlqIds":["1-3"]%s}`
	const refused = `,"failures":[{"dlqId":"%s","error":"give a key"}]`
	one, another := fmt.Sprintf(refused, "1-1"), fmt.Sprintf(refused, "1-3")
	tests := []struct {
		name             string
		first, last      string
		output, out, err string
		code             int
	}{
		{"nothing", "", "", "table", "3 failed runs would be restarted\n", "", exitOK},
		{"one on the first page", one, "", "table", "2 failed runs would be restarted, 1 would stay\n",
			"dead letter 1-1 stays: give a key\nposthaste: 1 failed run could not be restarted\n", exitFailure},
		{"one on a later page", "", another, "table", "2 failed runs would be restarted, 1 would stay\n",
			"dead letter 1-3 stays: give a key\nposthaste: 1 failed run could not be restarted\n", exitFailure},
		{"as JSON", one, another, "json", `{"dryRun":true,"total":3,"dlqIds":["1-1","1-2","1-3"],` +
			`"failures":[{"dlqId":"1-1","error":"give a key"},{"dlqId":"1-3","error":"give a key"}]}` + "\n",
			"dead letter 1-1 stays: give a key\ndead letter 1-3 stays: give a key\nposthaste: 2 failed runs could not be restarted\n", exitFailure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page := fmt.Sprintf(first, test.first)
				if r.FormValue("cursor") == "p1" {
					page = fmt.Sprintf(last, test.last)
				}
				_, _ = fmt.Fprint(w, page)
			}))
			defer server.Close()
			var out, err bytes.Buffer
			code := run([]string{"dlq", "restart", "--all", "--dry-run", "--url", server.URL, "--output", test.output}, terminal{&out, &err})
			if code != test.code || out.String() != test.out || err.String() != test.err {
				t.Errorf("code %d\n%s%s\nwant code %d\n%s%s", code, &out, &err, test.code, test.out, test.err)
			}
		})
	}
}
