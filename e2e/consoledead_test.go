package e2e

import (
	"fmt"
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
	page.sees("It is in the DLQ and can be restarted.")
	if err := c.call(t.Context(), http.MethodDelete, "/v2/workflows/dlq/"+run.DLQID, nil, "", nil); err != nil {
		t.Fatal(err)
	}
	page.press("Restart")
	page.sees("there is no failed workflow run")
	page.sees("It is no longer in the DLQ; it can only be started again from its payload.")
	page.checkNotRestartable()
	page.inspect("run-gone")
}

// testNamedRuns restarts all runs that match: a dry run names them as the tables do, and
// settings that are refused can be mended.
func testNamedRuns(t *testing.T, b *browser, c *client, s *sink) {
	runs := failRuns(t, c, s, 2, "named")
	page := b.open(t, desktop, c.console("/dlq/runs?label=named"))
	page.press("Select all that match")
	page.press("Restart…")
	page.sees("It repeats all steps")
	page.press("Which entries")
	for _, run := range runs {
		page.sees(run.WorkflowRunID)
		page.misses(run.DLQID)
	}
	page.press("Override settings")
	page.fill("Retries", "-3")
	page.inspect("dlq-which")
	page.press("Restart 2 entries")
	page.sees("0 restarted. Nothing has been changed.")
	page.sees(`Upstash-Retries "-3"`)
	page.inspect("dlq-refused")
	page.press("Back")
	page.until(`document.querySelector("dialog input").value === "-3"`, "find the settings as they were")
	page.fill("Retries", "0")
	page.fill("Delay", "1h")
	page.press("Restart 2 entries")
	page.sees("2 restarted.")
	page.press(runs[0].WorkflowRunID)
	page.sees("It was restarted.")
}

// testNamedMessages does the same with messages, one of which is chosen.
func testNamedMessages(t *testing.T, b *browser, c *client, s *sink) {
	var ids []string
	for range 2 {
		id, err := c.publish(t.Context(), s.url+"/"+answerBroken, map[string]string{"Upstash-Retries": "0", "Upstash-Label": "named"}, "x")
		if err != nil {
			t.Fatal(err)
		}
		c.awaitLog(t, url.Values{"messageId": {id}, "state": {"FAILED"}}, 1)
		ids = append(ids, id)
	}
	page := b.open(t, phone, c.console("/dlq/messages?label=named"))
	page.do(clickFirst(".table-body input"))
	page.press("Retry…")
	page.press("Which entries")
	page.sees(ids[1])
	page.press("Override settings")
	page.fill("Retries", "-3")
	page.inspect("dlq-which-phone")
	if wide := evaluate[int](page, `((e) => e.scrollWidth - e.clientWidth)(document.querySelector("dialog"))`); wide > 0 {
		t.Errorf("the dialog is %d pixels too wide for a phone", wide)
	}
	page.press("Retry 1 entry")
	page.sees("0 published again, 1 not. Nothing has been changed.")
	page.press("Back")
	page.fill("Retries", "0")
	page.fill("Delay", "1h")
	page.press("Retry 1 entry")
	page.sees("1 published again.")
	page.until(fmt.Sprintf(`document.querySelector("dialog td a").innerText === %q`, ids[1]), "see which message was published again")
	page.press("Done")
	page.press("Select all that match")
	page.press("Delete…")
	page.press("Which entries")
	page.sees(ids[0])
	page.press("Delete 1 entry")
	page.sees("1 deleted.")
}
