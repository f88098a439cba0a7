package api_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestElementsAreExact checks on every call on many things that an element of an array is one
// value: that it has a comma makes it no list (contract, U-66 and decision 10). Each has to
// do with one of two that wait, or have failed, under the keys "eu,prod" and "prod".
func TestElementsAreExact(t *testing.T) {
	tests := map[string]struct{ method, path, list string }{
		"cancel messages": {"DELETE", "/v2/messages", "/v2/logs?state=CANCELLED"},
		"delete letters":  {"DELETE", "/v2/dlq", "/v2/dlq"},
		"retry letters":   {"POST", "/v2/dlq/retry", "/v2/dlq"},
		"cancel runs":     {"DELETE", "/v2/workflows/runs", "/v2/workflows/logs?state=RUN_CANCELED"},
		"delete runs":     {"DELETE", "/v2/workflows/dlq", "/v2/workflows/dlq"},
		"restart runs":    {"POST", "/v2/workflows/dlq/restart", "/v2/workflows/dlq"},
		"resume runs":     {"POST", "/v2/workflows/dlq/resume", "/v2/workflows/dlq"},
	}
	calls := map[string]struct{ query, body string }{
		"at once":        {"", `{"flowControlKey":["eu,prod","us,prod"]}`},
		"in the query":   {"?flowControlKey[]=eu,prod", ""},
		"in both":        {"?flowControlKey[]=eu,prod", `{"flowControlKey":["eu,prod"]}`},
		"as an action":   {"?async=true", `{"flowControlKey":["eu,prod"]}`},
		"as kept filter": {"", `{"flowControlKey":["eu,prod"],"async":true}`},
	}
	for name, test := range tests {
		for form, c := range calls {
			t.Run(name+" "+form, func(t *testing.T) {
				inWorld(t, func(w *world) {
					failUnderKeys(w)
					w.do(test.method, test.path+c.query, c.body, nil, "Upstash-Delay: 1h") // or it fails again
					time.Sleep(time.Second)
					synctest.Wait()
					var page struct {
						Messages []struct{ FlowControlKey string }
						Events   []struct{ FlowControlKey string }
						Runs     []struct{ WorkflowRunID string }
					}
					w.do("GET", test.list, "", &page)
					var keys []string
					for _, entry := range append(page.Messages, page.Events...) {
						keys = append(keys, entry.FlowControlKey)
					}
					for _, run := range page.Runs {
						keys = append(keys, run.WorkflowRunID)
					}
					want := "eu,prod"
					switch {
					case strings.HasSuffix(test.list, "dlq"):
						want = "prod" // it is what is left
					case test.path == "/v2/workflows/runs":
						want = "eu-prod"
					}
					if len(keys) != 1 || keys[0] != want {
						t.Errorf("%s %s: %q, want %s", test.list, c.body, keys, want)
					}
				})
			})
		}
	}
}

// failUnderKeys makes, under each of two keys, a message and a run that wait, and one of
// each that has failed.
func failUnderKeys(w *world) {
	for key, run := range map[string]string{"eu,prod": "eu-prod", "prod": "prod"} {
		control := []string{"Upstash-Flow-Control-Key: " + key, "Upstash-Flow-Control-Value: parallelism=9"}
		late := append([]string{"Upstash-Delay: 1h"}, control...)
		failing := append([]string{"Upstash-Retries: 0"}, control...)
		w.do("POST", "/v2/publish/https://example.com/late", "", nil, late...)
		w.do("POST", "/v2/publish/https://example.com/fail/500", "", nil, failing...)
		w.do("POST", "/v2/trigger/https://example.com/workflow", "", nil, append(late, "Upstash-Workflow-RunId: "+run)...)
		w.do("POST", "/v2/trigger/https://example.com/fail/500", "", nil, failing...)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// TestCountThatAnSDKAdds checks that a cancellation with the count that one SDK adds by
// itself cancels all, in commits of a bounded size, and that other counts limit (contract,
// decision 28).
func TestCountThatAnSDKAdds(t *testing.T) {
	tests := map[string]struct {
		query, body string
		want        int
	}{
		"all":               {"?count=100", "", 110},
		"by filter":         {"?host=a.example&count=100", "", 110},
		"in a body":         {"", `{"count":100,"path":"/late"}`, 110},
		"one less":          {"?count=99", "", 99},
		"one more":          {"?count=101", "", 101},
		"given twice":       {"?count=100", `{"count":"100"}`, 110},
		"without":           {"", "", 110},
		"above the maximum": {"?count=1000", "", 110},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.delay(110, "late")
				var got struct{ Cancelled int }
				w.do("DELETE", "/v2/messages"+test.query, test.body, &got)
				if got.Cancelled != test.want {
					t.Errorf("cancelled %d, want %d", got.Cancelled, test.want)
				}
			})
		})
	}
	t.Run("as an action", func(t *testing.T) {
		inWorld(t, func(w *world) {
			if status, body := w.ask(call{method: "DELETE", path: "/v2/messages?count=100&async=true"}, "full"); status != http.StatusAccepted {
				t.Errorf("%d %s", status, body)
			}
		})
	})
}
