package e2e

import (
	"net/http"
	"net/url"
	"testing"
)

// failRuns makes runs that fail for good, with a label, and returns what the DLQ has of them.
func failRuns(t *testing.T, c *client, s *sink, many int, label string) []deadRun {
	t.Helper()
	settings := map[string]string{"Upstash-Retries": "0", "Upstash-Label": label}
	for range many {
		if err := c.call(t.Context(), http.MethodPost, "/v2/trigger/"+s.url+"/"+answerBroken, settings, "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	var page struct{ Messages []deadRun }
	await(t, "runs that have failed", func() bool {
		if err := c.call(t.Context(), http.MethodGet, "/v2/workflows/dlq?"+url.Values{"label": {label}}.Encode(), nil, "", &page); err != nil {
			t.Fatal(err)
		}
		return len(page.Messages) == many
	})
	return page.Messages
}

// deadRun is an entry of the DLQ of runs.
type deadRun struct{ DLQID, WorkflowRunID string }

// testGoneDeadLetter looks at a run whose entry in the DLQ is deleted.
func testGoneDeadLetter(t *testing.T, b *browser, c *client, s *sink) {
	run := failRuns(t, c, s, 1, "gone")[0]
	page := b.open(t, desktop, c.console("/runs/"+run.WorkflowRunID))
	page.sees("It waits in the DLQ to be restarted.")
	if err := c.call(t.Context(), http.MethodDelete, "/v2/workflows/dlq/"+run.DLQID, nil, "", nil); err != nil {
		t.Fatal(err)
	}
	page.press("Restart")
	page.sees("there is no failed workflow run")
	page.sees("It is no longer in the DLQ, so it cannot be restarted.")
	page.checkNotRestartable()
	page.inspect("run-gone")
}
