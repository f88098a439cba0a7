package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// pixel is where a click goes, in pixels of the window.
type pixel struct{ X, Y float64 }

// find returns where the middle of a button is that is shown.
func (p *tab) find(name string) pixel {
	p.t.Helper()
	const button = `[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button")].find((e) => (e.getAttribute("aria-label") ?? e.innerText) === %q && e.offsetParent !== null)`
	found := fmt.Sprintf(button, name)
	p.until(found+` !== undefined`, "find "+name)
	return evaluate[pixel](p, `(({ x, y, width, height }) => ({ X: x + width / 2, Y: y + height / 2 }))(`+found+`.getBoundingClientRect())`)
}

// click clicks with the mouse; count is 2 for the second click of a double click.
func (p *tab) click(where pixel, count int) {
	p.t.Helper()
	p.do(chromedp.MouseClickXY(where.X, where.Y, chromedp.ClickCount(count)))
}

// testSecondClicks double-clicks buttons after whose first click there is another one under
// the pointer. The second click does nothing.
func testSecondClicks(t *testing.T, b *browser, c *client, s *sink) {
	page := b.open(t, desktop, c.console("/runs/"+failOnce(t, c)))
	restart := page.find("Restart")
	page.click(restart, 1)
	page.sees("Restart of")
	page.click(restart, 2)
	cancel := page.find("Cancel run") // it is still to be seen
	if cancel == restart {
		t.Error("Cancel run is where Restart was")
	}
	page.click(cancel, 1)
	page.sees("It can be started again from its payload.")
	page.inspect("run-cancel")
	page.do(pressEnter()) // the focus is on the button that changes nothing
	page.until(`document.querySelector("dialog") === null`, "keep the run")

	if err := c.putQueue(t.Context(), "twice", 1); err != nil {
		t.Fatal(err)
	}
	page = b.open(t, desktop, c.console("/queues"))
	page.fill("Filter text", "twice")
	page.until(`document.querySelectorAll("tbody tr").length === 1`, "see it alone")
	pause := page.find("Pause")
	page.click(pause, 1)
	page.sees("PAUSED")
	page.click(pause, 2)
	remove := page.find("Delete twice")
	page.click(remove, 1)
	page.click(page.find("Delete"), 2) // under the pointer, were the row elsewhere
	page.press("Keep as it is")
	page.until(`document.activeElement?.getAttribute("aria-label") === "Delete twice"`, "have the focus again")
	page.sees("PAUSED")

	id, err := c.publish(t.Context(), s.url+"/"+answerOK, map[string]string{"Upstash-Label": "twice"}, "x")
	if err != nil {
		t.Fatal(err)
	}
	c.awaitLog(t, url.Values{"messageId": {id}, "state": {"DELIVERED"}}, 1)
	page = b.open(t, desktop, c.console("/logs?open="+id))
	publish := page.find("Publish again")
	page.click(publish, 1)
	page.until(fmt.Sprintf(`document.querySelector(".drawer code").innerText !== %q && document.querySelector(".timeline .delivered") !== null`, id), "see the new message")
	page.find("Publish again") // it is there again
	page.click(publish, 2)
	page.press("Close message")
	if page, err := c.logs(t.Context(), url.Values{"label": {"twice"}, "url": {s.url + "/" + answerOK}, "state": {"CREATED"}}); err != nil || len(page.Events) != 2 {
		t.Errorf("a double click has published %d messages, %v, want one", len(page.Events)-1, err)
	}
}

// testRunNow runs a message that is delayed, one that waits for a retry, and the sleep of a run.
func testRunNow(t *testing.T, b *browser, c *client, s *sink) {
	for _, wait := range []struct{ answer, setting, value, end string }{
		{answerOK, "Upstash-Delay", "1h", "DELIVERED"},
		{answerFlaky, "Upstash-Retry-Delay", "3600000", "DELIVERED"},
	} {
		id, err := c.publish(t.Context(), s.url+"/"+wait.answer, map[string]string{wait.setting: wait.value}, "x")
		if err != nil {
			t.Fatal(err)
		}
		page := b.open(t, desktop, c.console("/logs?open="+id))
		page.press("Run now")
		page.until(fmt.Sprintf(`document.querySelector(".drawer h2 .badge").innerText === %q`, wait.end), "see that it has ended")
	}
	var run struct{ WorkflowRunID string }
	settings := map[string]string{"Upstash-Delay": "1h", "Upstash-Retries": "0"}
	if err := c.call(t.Context(), http.MethodPost, "/v2/trigger/"+s.url+"/"+answerBroken, settings, "x", &run); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/runs/"+run.WorkflowRunID))
	page.press("Run now")
	page.sees("It failed for good.")
}

// failOnce has a run fail whose endpoint holds all later requests, and returns its id.
func failOnce(t *testing.T, c *client) string {
	t.Helper()
	var calls atomic.Int32
	ended := make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) > 1 {
			<-ended
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(endpoint.Close)
	t.Cleanup(func() { close(ended) })
	var run struct{ WorkflowRunID string }
	if err := c.call(t.Context(), http.MethodPost, "/v2/trigger/"+endpoint.URL, map[string]string{"Upstash-Retries": "0"}, "x", &run); err != nil {
		t.Fatal(err)
	}
	await(t, "the run to fail", func() bool {
		var page struct{ Messages []deadRun }
		if err := c.call(t.Context(), http.MethodGet, "/v2/workflows/dlq?workflowRunId="+run.WorkflowRunID, nil, "", &page); err != nil {
			t.Fatal(err)
		}
		return len(page.Messages) == 1
	})
	return run.WorkflowRunID
}

// testStartAgain cancels the successor of a run that failed: both can be started again, with
// the payload, the headers and the settings they had.
func testStartAgain(t *testing.T, b *browser, c *client, s *sink) {
	settings := map[string]string{
		"Upstash-Retries": "0", "Upstash-Label": "again", "Content-Type": "text/csv", "Upstash-Forward-X-Tenant": "7",
		"Upstash-Flow-Control-Key": "again", "Upstash-Flow-Control-Value": "parallelism=3",
	}
	var run struct{ WorkflowRunID string }
	if err := c.call(t.Context(), http.MethodPost, "/v2/trigger/"+s.url+"/"+answerBroken, settings, "a,b", &run); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/runs/"+run.WorkflowRunID))
	page.sees("It is in the DLQ and can be restarted.")
	var made struct {
		WorkflowRuns []struct{ WorkflowRunID string }
	}
	if err := c.call(t.Context(), http.MethodPost, "/v2/workflows/dlq/restart?label=again", map[string]string{"Upstash-Delay": "1h"}, "", &made); err != nil {
		t.Fatal(err)
	}
	successor := made.WorkflowRuns[0].WorkflowRunID
	page.do(chromedp.Navigate(c.base + "/console/runs/" + successor))
	page.press("Cancel run")
	page.press("Cancel the run")
	page.sees("It was cancelled.")
	page.until(`document.activeElement.matches("h1")`, "have the focus on the heading, when the button is gone")
	for _, ended := range []string{successor, run.WorkflowRunID} {
		page.do(chromedp.Navigate(c.base + "/console/runs/" + ended))
		page.press("Start again")
		page.until(fmt.Sprintf(`document.querySelector("h1 code").innerText !== %q`, ended), "see the new run")
		page.sees("It failed for good. It is in the DLQ and can be restarted.")
		checkSame(t, "Start again", firstMessage(t, c, run.WorkflowRunID), firstMessage(t, c, evaluate[string](page, `document.querySelector("h1 code").innerText`)))
	}
}

// firstMessage returns what the log has of a run's first message, but for what every run has
// of its own.
func firstMessage(t *testing.T, c *client, runID string) map[string]any {
	t.Helper()
	var page struct {
		Runs []struct {
			Steps []struct{ Steps []struct{ MessageID string } }
		}
	}
	if err := c.call(t.Context(), http.MethodGet, "/v2/workflows/logs?workflowRunId="+runID, nil, "", &page); err != nil {
		t.Fatal(err)
	}
	entry := createdEntry(t, c, page.Runs[0].Steps[0].Steps[0].MessageID)
	delete(entry, "workflowRunId")
	delete(entry, "workflowCreatedAt")
	return entry
}

// testOpenDeadLetters retries and deletes dead letters that are open: they leave the list.
func testOpenDeadLetters(t *testing.T, b *browser, c *client, s *sink) {
	for range 2 {
		if _, err := c.publish(t.Context(), s.url+"/"+answerBroken, map[string]string{"Upstash-Retries": "0", "Upstash-Label": "opened"}, "x"); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitLog(t, url.Values{"label": {"opened"}, "state": {"FAILED"}}, 2)
	page := b.open(t, desktop, c.console("/dlq/messages?label=opened"))
	page.sees("2 entries")
	page.openFirstRow()
	first := evaluate[string](page, `document.querySelector(".drawer code").innerText`)
	page.press("Retry")
	page.until(fmt.Sprintf(`document.querySelector(".drawer code").innerText !== %q`, first), "see the new message")
	page.sees("1 entry")
	page.press("Close message")
	page.until(`document.activeElement.getAttribute("role") === "grid"`, "have the focus in the table")
	page.openFirstRow()
	page.press("Delete")
	page.press("Delete")
	page.sees("Deleted from the DLQ.")
	page.press("Publish again") // as it is not in the DLQ any more
	page.misses("Deleted from the DLQ.")
}

// testFailedEntries looks for failed messages by their state, and is told why they failed.
func testFailedEntries(t *testing.T, b *browser, c *client, s *sink) {
	if _, err := c.publish(t.Context(), s.url+"/"+answerRejected, map[string]string{"Upstash-Label": "refused"}, "x"); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/logs?label=refused&state=FAILED&live=1"))
	page.until(`document.querySelector(".table-body .note")?.innerText.startsWith("489") === true`, "see why it failed")
}

// testTabs opens a link in another tab, which is signed in, and signs out of both.
func testTabs(t *testing.T, b *browser, c *client, s *sink) {
	run := failRuns(t, c, s, 1, "tabs")[0]
	page := b.open(t, desktop, c.console("/runs?label=tabs"))
	page.until(`document.querySelector(".table-body a.row") !== null`, "see the link of a row")
	other := page.another(evaluate[string](page, `document.querySelector(".table-body a.row").href`))
	other.sees(run.WorkflowRunID)
	other.press("Sign out")
	page.sees("posthaste dev prints it")
	other = page.another(c.base + "/console/logs")
	other.sees("posthaste dev prints it")
	if kept := evaluate[int](other, `localStorage.length`); kept != 0 {
		t.Errorf("%d things are kept for good", kept)
	}
}

// testFocusOfViews changes what is shown by keyboard: the focus stays in the page.
func testFocusOfViews(t *testing.T, b *browser, c *client, s *sink) {
	failRuns(t, c, s, 1, "focus")
	page := b.open(t, desktop, c.console("/runs?label=focus"))
	for _, step := range []struct {
		name string
		keys string
		want string // selector of what has the focus then
	}{
		{"open a run", kb.Enter, "h1"},
		{"go to the log", "gl", "h1"},
		{"go on with Tab", kb.Tab, ".tabs a"},
	} {
		if step.name == "open a run" {
			page.until(`document.querySelector(".table-body .row") !== null`, "see a row")
			page.do(chromedp.Focus(chromedp.CSS(`[role=grid]`)))
		}
		page.do(chromedp.KeyEvent(step.keys))
		page.until(fmt.Sprintf(`document.activeElement.matches(%q)`, step.want), step.name+" and have the focus on "+step.want)
	}
	page.do(chromedp.Navigate(c.base + "/console/logs?label=focus&label=other"))
	page.until(`document.querySelector(".chip") !== null`, "see a filter")
	page.do(chromedp.Focus(chromedp.CSS(`.chip`)), pressEnter())
	page.until(`document.querySelectorAll(".chip").length === 1 && document.activeElement !== document.body`, "remove a filter and keep the focus")
}

// testWidths looks at every view in windows of several widths: nothing that can be pressed is
// beyond the edge, and dialogs and the choice of times stay within themselves.
func testWidths(t *testing.T, b *browser, c *client, s *sink) {
	schedule := strings.Repeat("row-", 12)
	headers := map[string]string{"Upstash-Cron": "CRON_TZ=Europe/Berlin 30 9 * * MON-FRI", "Upstash-Schedule-Id": schedule}
	if err := c.call(t.Context(), http.MethodPost, "/v2/schedules/"+s.url+"/"+answerOK, headers, "", nil); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{1440, 1024, 800} {
		page := b.open(t, [2]int64{width, 700}, c.console("/overview"))
		for _, view := range []string{"overview", "messages", "logs", "runs", "dlq/runs", "queues", "schedules", "groups", "flow"} {
			page.do(chromedp.Navigate(c.base + "/console/" + view))
			page.until(`document.querySelector(".card, .table-body .row, tbody tr, .empty") !== null`, "see "+view)
			beyond := evaluate[[]string](page, `[...document.querySelectorAll("main button, main a")].filter((part) => part.checkVisibility() && part.getBoundingClientRect().right > innerWidth).map((part) => part.innerText)`)
			if len(beyond) > 0 {
				t.Errorf("%s: %q are beyond the edge of a window of %d pixels", view, beyond, width)
			}
		}
		page.do(chromedp.Navigate(c.base + "/console/logs"))
		page.press("Any time")
		if wide := evaluate[float64](page, `Math.max(...[...document.querySelectorAll(".popover *")].map((part) => part.getBoundingClientRect().right)) - document.querySelector(".popover").getBoundingClientRect().right`); wide > 0 {
			t.Errorf("the choice of times is %v pixels wider than its box", wide)
		}
		page.until(`document.querySelector(".popover").getBoundingClientRect().right <= innerWidth`, fmt.Sprintf("see the choice of times in a window of %d pixels", width))
		page.inspect(fmt.Sprintf("times-%d", width))
	}
	testDialogsOfRows(t, b.open(t, desktop, c.console("")), c, schedule)
}

// testDialogsOfRows opens dialogs from the rows of tables, whose look they have not.
func testDialogsOfRows(t *testing.T, page *tab, c *client, schedule string) {
	t.Helper()
	page.do(chromedp.Navigate(c.base + "/console/schedules"))
	for _, button := range []string{"Edit", "Details", "Delete " + schedule} {
		page.press(button)
		page.until(`document.querySelector("dialog[open]") !== null`, "see the dialog")
		if look := evaluate[string](page, `(({ textAlign, whiteSpace }) => textAlign + " " + whiteSpace)(getComputedStyle(document.querySelector("dialog")))`); look != "start normal" {
			t.Errorf("the dialog of %s is written %s", button, look)
		}
		if wide := evaluate[int](page, `((e) => e.scrollWidth - e.clientWidth)(document.querySelector("dialog"))`); wide > 0 {
			t.Errorf("the dialog of %s is %d pixels too wide", button, wide)
		}
		page.do(chromedp.KeyEvent(kb.Escape))
		page.until(`document.querySelector("dialog") === null`, "close the dialog")
	}
}
