package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestDryRunTellsWhatFails checks that a dry run of a restart ends as the restart would,
// also if what would fail is on a later page.
func TestDryRunTellsWhatFails(t *testing.T) {
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
		{"one on the first page", one, "", "table", "2 failed runs would be restarted, 1 would not\n",
			"DLQ entry 1-1 was not changed: give a key\nposthaste: 1 failed run could not be restarted\n", exitFailure},
		{"one on a later page", "", another, "table", "2 failed runs would be restarted, 1 would not\n",
			"DLQ entry 1-3 was not changed: give a key\nposthaste: 1 failed run could not be restarted\n", exitFailure},
		{"as JSON", one, another, "json", `{"dryRun":true,"total":3,"dlqIds":["1-1","1-2","1-3"],` +
			`"failures":[{"dlqId":"1-1","error":"give a key"},{"dlqId":"1-3","error":"give a key"}]}` + "\n",
			"DLQ entry 1-1 was not changed: give a key\nDLQ entry 1-3 was not changed: give a key\nposthaste: 2 failed runs could not be restarted\n", exitFailure},
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

// TestManyAreNamed names more dead letters than the server lists at a time.
func TestManyAreNamed(t *testing.T) {
	const most, named = 1000, 2500
	ids := make([]string, named)
	for i := range ids {
		ids[i] = fmt.Sprintf("%d-0", i)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := strings.Split(strings.Join(r.URL.Query()["dlqIds"], ","), ",")
		switch {
		case r.Method == http.MethodDelete:
			_, _ = fmt.Fprintf(w, `{"deleted":%d}`, named)
		case r.Method == http.MethodPost:
			_, _ = fmt.Fprintf(w, `{"responses":[%s{}]}`, strings.Repeat("{},", named-1))
		case len(asked) > most:
			http.Error(w, `{"error":"too many"}`, http.StatusBadRequest)
		default:
			_, _ = fmt.Fprintf(w, `{"messages":[{"dlqId":"%s"}]}`, strings.Join(asked, `"},{"dlqId":"`))
		}
	}))
	defer server.Close()
	for command, want := range map[string]string{
		"delete --dry-run": "2500 messages would be deleted\n",
		"retry --dry-run":  "2500 messages would be retried\n",
		"delete":           "2500 messages deleted\n",
		"retry":            "2500 messages retried\n",
	} {
		t.Run(command, func(t *testing.T) {
			var out, err bytes.Buffer
			args := slices.Concat([]string{"dlq", "messages"}, strings.Fields(command), []string{"--url", server.URL}, ids, ids[:1])
			code := run(args, terminal{&out, &err})
			if said := out.String() + err.String(); code != exitOK || !strings.HasSuffix(said, want) {
				t.Errorf("code %d, %.300s, want %s", code, said, want)
			}
		})
	}
}
