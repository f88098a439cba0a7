package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
)

// schedulesSaved are settings of schedules that a form could lose or add to.
var schedulesSaved = []struct {
	name, destination string // behind the sink's URL
	headers           map[string]string
	body              string
}{
	{"parameters with names of the server's own", "/ok?upstash-method=PUT&x=1#f", nil, ""},
	{"a path that clients would shorten", "/ok//b/../c", nil, ""},
	{"escapes", "/ok/a%2Fb%20c/{d}?e=%26", nil, ""},
	{"a body without a type", "/ok", nil, `{"a": 1}`},
	{"headers, one of which is empty", "/ok", map[string]string{"Content-Type": "text/csv", "Upstash-Forward-X-Empty": "", "Upstash-Forward-X-Tenant": "7"}, "a,b\r\n"},
}

// testScheduleSaved saves schedules in which nothing was changed: they stay what they were.
func testScheduleSaved(t *testing.T, b *browser, c *client, s *sink) {
	for _, test := range schedulesSaved {
		t.Run(test.name, func(t *testing.T) {
			headers := map[string]string{"Upstash-Cron": "0 6 29 2 *", "Upstash-Schedule-Id": "kept"}
			for name, value := range test.headers {
				headers[name] = value
			}
			if err := c.call(t.Context(), http.MethodPost, "/v2/schedules/"+url.QueryEscape(s.url+test.destination), headers, test.body, nil); err != nil {
				t.Fatal(err)
			}
			want := scheduleAsMade(t, c)
			page := b.open(t, desktop, c.console("/schedules"))
			page.fill("Filter text", "kept")
			page.until(`document.querySelectorAll("tbody tr").length === 1`, "see it alone")
			page.press("Edit")
			page.press("Save")
			page.until(`document.querySelector("dialog") === null`, "see that it is saved")
			if diff := cmp.Diff(want, scheduleAsMade(t, c)); diff != "" {
				t.Errorf("it has changed (-was +is):\n%s", diff)
			}
		})
	}
}

// scheduleAsMade returns what the schedule "kept" was made with.
func scheduleAsMade(t *testing.T, c *client) map[string]any {
	t.Helper()
	var schedule map[string]any
	if err := c.call(t.Context(), http.MethodGet, "/v2/schedules/kept", nil, "", &schedule); err != nil {
		t.Fatal(err)
	}
	delete(schedule, "createdAt")
	delete(schedule, "nextScheduleTime")
	return schedule
}

// testQueueInUse makes a queue under a name that another one has, which stays as it is, and
// under one that nothing can be asked for by.
func testQueueInUse(t *testing.T, b *browser, c *client) {
	if err := c.putQueue(t.Context(), "taken", 7); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/queues"))
	page.press("New queue")
	page.fill("Name", "taken")
	page.press("Save")
	page.sees(`Queue "taken" already exists, with parallelism 7`)
	page.inspect("queue-in-use")
	page.fill("Name", "..")
	page.press("Save")
	page.sees(`queueName ".." is invalid`)
	var queue struct{ Parallelism int }
	if err := c.call(t.Context(), http.MethodGet, "/v2/queues/taken", nil, "", &queue); err != nil || queue.Parallelism != 7 {
		t.Errorf("the queue that was there has parallelism %d, %v, want 7", queue.Parallelism, err)
	}
}

// testFocus opens dialogs by keyboard: what had the focus has it again behind them.
func testFocus(t *testing.T, b *browser, c *client, s *sink) {
	const focused = `document.querySelector("dialog") === null && document.activeElement`
	if err := c.putQueue(t.Context(), "focus", 1); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/queues"))
	page.fill("Filter text", "focus")
	page.until(`document.querySelectorAll("tbody tr").length === 1`, "see it alone")
	for _, button := range []string{"Edit", "Delete"} {
		for _, closed := range []string{kb.Escape, kb.Enter} { // Enter saves, which needs nothing changed
			if button == "Delete" && closed == kb.Enter {
				continue // and deletes
			}
			page.until(fmt.Sprintf(`(() => { const found = [...document.querySelectorAll("td button")].find((e) => e.innerText === %q); found?.focus(); return found !== undefined; })()`, button), "focus "+button)
			page.do(pressEnter())
			page.until(`document.querySelector("dialog[open]") !== null`, "see the dialog")
			page.checkAccessibility("the dialog behind " + button)
			page.do(chromedp.KeyEvent(closed))
			page.until(focused+`.innerText === "`+button+`"`, "have the focus on "+button+" again")
		}
	}
	if _, err := c.publish(t.Context(), s.url+"/"+answerOK, nil, "x"); err != nil {
		t.Fatal(err)
	}
	page = b.open(t, desktop, c.console("/logs"))
	page.until(`document.querySelector(".table-body .row") !== null`, "see a row")
	page.do(chromedp.Focus(chromedp.CSS(`[role=grid]`)), chromedp.KeyEvent("?"))
	page.until(`document.querySelector("dialog[open]") !== null`, "see the keys")
	page.checkAccessibility("the dialog of the keys")
	page.do(chromedp.KeyEvent(kb.Escape))
	page.until(focused+`.getAttribute("role") === "grid"`, "have the focus in the table again")
}

// testBadTimes opens addresses whose times are none: the server says so.
func testBadTimes(t *testing.T, b *browser, c *client) {
	for _, query := range []string{"fromDate=abc", "toDate=" + strings.Repeat("9", 20), "fromDate=-5"} {
		page := b.open(t, desktop, c.console("/logs?"+query))
		_, value, _ := strings.Cut(query, "=")
		page.until(fmt.Sprintf(`document.querySelector(".fault")?.innerText.includes(%q) === true`, value), "see what is wrong with "+query)
		page.misses("This view has failed")
		page.press("Clear")
		page.until(`document.querySelector(".fault") === null`, "see the log without it")
	}
}
