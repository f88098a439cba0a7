package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// testFirstVisit is the story of somebody who opens the console for the first time: a
// run has failed, which one is found, why is seen, it is started anew, and is watched
// until it succeeds.
func testFirstVisit(t *testing.T, b *browser, c *client) {
	app := startOrders(t, c)
	settings := map[string]string{"Upstash-Retries": "0", "Content-Type": "application/json", "Upstash-Label": "order"}
	for _, order := range []string{"1", "2", "3"} {
		if err := c.call(t.Context(), http.MethodPost, "/v2/trigger/"+app+"/orders", settings, `{"id":`+order+`}`, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitDeadRuns(t, 3)
	page := b.open(t, desktop, c.console(""))
	page.sees("Dead letters")
	page.sees("3 runs")
	page.inspect("overview")
	page.press("3 runs")
	page.sees("the card service is down")
	page.inspect("dlq-runs")

	page.openFirstRow()
	page.sees("Step charge the card failed 1 time. The last response had status 500")
	page.inspect("run-failed")
	failed := evaluate[string](page, `document.querySelector("h1 code").innerText`)
	if _, err := http.Post(app+"/mend", "", nil); err != nil {
		t.Fatal(err)
	}
	page.press("Restart")
	page.sees("Restart of")
	page.sees("Step wait for the parcel waits for the event parcel-")
	page.inspect("run-waiting")
	page.press(evaluate[string](page, `[...document.querySelectorAll(".deeds button")].find((b) => b.innerText.startsWith("Notify")).innerText`))
	page.fill("Event data", `{"parcel":"P-1"}`)
	page.press("Notify")
	page.sees("It succeeded.")
	page.sees(`"parcel": "P-1"`)
	page.inspect("run-succeeded")
	page.press(failed)
	page.sees("It failed for good. It was restarted.")
	page.checkNotRestartable()

	t.Run("all that match", func(t *testing.T) { testRestartAll(t, b, c) })
}

// checkNotRestartable fails the test if the page of a run offers to start it anew.
func (p *tab) checkNotRestartable() {
	p.t.Helper()
	for _, deed := range evaluate[[]string](p, `[...document.querySelectorAll(".deeds button")].map((b) => b.innerText)`) {
		if deed == "Restart" || deed == "Resume" {
			p.t.Errorf("%s is offered, and the run is not in the DLQ any more", deed)
		}
	}
}

// testRestartAll resumes one of the others that have failed, and restarts the rest: it sees
// how many and which, changes nothing yet, does it, and goes on to what it became.
func testRestartAll(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.console("/dlq/runs?label=order"))
	page.sees("2 entries")
	page.do(clickFirst(".table-body input"))
	page.press("Resume…")
	page.press("Resume 1 entry")
	page.sees("1 resumed.")
	page.press("Done")
	page.sees("1 entry")
	page.press("Select all that match")
	page.press("Restart…")
	page.sees("1 entry matches and would be restarted. Nothing has been changed yet.")
	page.press("Which entries")
	page.press("Override settings")
	page.fill("Retries", "2")
	page.inspect("dlq-dry-run")
	page.press("Restart 1 entry")
	page.sees("1 restarted.")
	page.inspect("dlq-restarted")
	page.do(clickFirst("dialog td + td a"))
	page.sees("Restart of")
	page.sees("waits for the event parcel-")
	page.press("Cancel run")
	page.press("Cancel the run")
	page.sees("It was cancelled.")
}

// startOrders starts the app of sdk/console.mjs and returns its URL.
func startOrders(t *testing.T, c *client) string {
	t.Helper()
	needNode(t)
	cmd := exec.Command("node", "console.mjs")
	cmd.Dir = sdkDirectory
	cmd.Env = []string{"QSTASH_URL=" + c.base, "QSTASH_TOKEN=" + c.token, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the app has not said where it is: %v", err)
	}
	return strings.TrimSpace(line)
}

// testDeadLetters publishes a dead message again with other settings, and deletes another.
func testDeadLetters(t *testing.T, b *browser, c *client, s *sink) {
	settings := map[string]string{"Upstash-Retries": "0", "Upstash-Label": "dead"}
	for range 4 {
		if _, err := c.publish(t.Context(), s.url+"/"+answerBroken, settings, "x"); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitLog(t, url.Values{"label": {"dead"}, "state": {"FAILED"}}, 4)
	page := b.open(t, phone, c.console("/dlq/messages?label=dead"))
	page.until(`document.querySelectorAll(".table-body .row").length === 4`, "see four dead letters")
	page.inspect("dlq-messages-phone")
	page.do(clickFirst(".table-body input"))
	page.press("Retry…")
	page.press("Override settings")
	page.fill("Delay", "1h") // or else it is soon here again
	page.press("Retry 1 entry")
	page.sees("1 published again.")
	page.press("Done")
	page.do(clickFirst(".table-body input"))
	page.press("Delete…")
	page.press("Delete 1 entry")
	page.sees("1 deleted.")
	page.press("Done")
	testSweep(t, page)
}

// testSweep publishes all that match again: each entry is named beside what it became. A
// sweep whose connection is lost does not claim to know what was changed.
func testSweep(t *testing.T, page *tab) {
	page.press("Select all that match")
	page.press("Retry…")
	page.sees("2 entries match and would be published again.")
	evaluate[bool](page, `(window.online = window.fetch, window.fetch = () => Promise.reject(new TypeError()), true)`)
	page.press("Retry 2 entries")
	page.sees("more entries may have been changed than are shown here; check the list.")
	page.sees("the server cannot be reached")
	evaluate[bool](page, `(window.fetch = window.online, true)`)
	page.press("Done")
	page.until(`document.querySelectorAll(".table-body .row").length === 2`, "see that two are left")
	page.press("Select all that match")
	page.press("Retry…")
	page.press("Retry 2 entries")
	page.sees("2 published again.")
	if named := evaluate[int](page, `[...document.querySelectorAll("dialog td:first-child")].filter((cell) => cell.innerText !== "").length`); named != 2 {
		t.Errorf("%d entries are named beside what they became, want 2", named)
	}
}

// testLanes pauses, resumes and edits what messages wait in, and is told why one does
// not move.
func testLanes(t *testing.T, b *browser, c *client, s *sink) {
	page := b.open(t, desktop, c.console("/queues"))
	page.press("New queue")
	page.fill("Name", "orders")
	page.press("Save")
	page.press("Pause")
	page.sees("PAUSED")
	page.inspect("queues")
	id, err := c.enqueue(t.Context(), "orders", s.url+"/"+answerOK, map[string]string{
		"Upstash-Flow-Control-Key": "tenant/7", "Upstash-Flow-Control-Value": "parallelism=2",
	}, "x")
	if err != nil {
		t.Fatal(err)
	}
	page.press("Edit")
	page.until(`document.querySelector("dialog input").value === "1"`, "see how wide the queue is")
	page.fill("Parallelism", "3")
	page.press("Save")
	page.until(`[...document.querySelectorAll("td")].some((cell) => cell.innerText === "3")`, "see that the queue is wider")
	page.press("Overview")
	page.fill("ID of a message or a run", id)
	page.press("Why is this not moving?")
	page.sees("Its queue orders is paused: it delivers nothing until it is resumed.")
	page.inspect("why")
	page.press("Flow control")
	page.press("Pin")
	page.fill("Parallelism", "1")
	page.do(pressEnter())
	page.sees("PINNED")
	page.inspect("flow-control")
	page.press("Queues")
	page.press("Resume")
	page.sees("ACTIVE")
	c.awaitLog(t, url.Values{"messageId": {id}, "state": {"DELIVERED"}}, 1) // the page is not live
	page.press("Messages")
	page.fill("Filter text", id)
	page.do(pressEnter())
	page.sees("DELIVERED")
	page.press("Queues")
	page.press("orders")
	page.press("Publish…")
	page.until(`[...document.querySelectorAll("dialog label")].some((label) => label.querySelector("span")?.innerText === "Queue" && label.querySelector("input").value === "orders")`, "see the queue that is looked at")
	page.fill("Destination", s.url+"/"+answerOK+"/through")
	page.fill("Retries", "7")
	page.press("Publish")
	page.sees("Accepted and stored")
	page.sees("at most 8")
	c.awaitLog(t, url.Values{"queueName": {"orders"}, "path": {"/" + answerOK + "/through"}, "state": {"DELIVERED"}}, 1)
	testCancel(t, page, c, s)
}

// testCancel cancels a message that waits.
func testCancel(t *testing.T, page *tab, c *client, s *sink) {
	id, err := c.publish(t.Context(), s.url+"/"+answerOK, map[string]string{"Upstash-Delay": "1h"}, "x")
	if err != nil {
		t.Fatal(err)
	}
	page.do(chromedp.Navigate(c.base + "/console/logs?open=" + id))
	page.press("Cancel")
	page.press("Cancel the message")
	page.sees("Cancellation requested.")
	page.until(`document.querySelector(".drawer h2 .badge").innerText === "CANCELLED"`, "see that it is cancelled")
	c.awaitLog(t, url.Values{"messageId": {id}, "state": {"CANCELLED"}}, 1)
}

// testSchedules makes a schedule, which is told in words and with its next times first.
func testSchedules(t *testing.T, b *browser, c *client, s *sink) {
	page := b.open(t, desktop, c.console("/schedules"))
	page.press("New schedule")
	page.fill("Cron expression", "61 9 * * *")
	page.sees("minute \"61\" is not a number from 0 to 59")
	page.fill("Cron expression", "CRON_TZ=Europe/Berlin 30 9 * * MON-FRI")
	page.sees("Runs at 09:30 on Monday to Friday (Europe/Berlin)")
	page.until(`document.querySelectorAll("[aria-label='Next times'] li").length === 5`, "see the next five times")
	page.fill("Destination", s.url+"/"+answerOK)
	page.fill("Id", "nightly")
	page.inspect("schedule")
	page.press("Save")
	page.sees("nightly")
	page.press("Pause")
	page.sees("PAUSED")
	page.inspect("schedules")
	page.press("Edit")
	page.fill("Cron expression", "0 7 * * *")
	page.sees("Runs at 07:00 every day (UTC)")
	page.press("Save")
	page.until(`document.querySelector("dialog") === null`, "see that it is saved")
	page.sees("0 7 * * *")
	page.sees("PAUSED")
	page.press("URL groups")
	page.press("New URL group")
	page.fill("Name", "shops")
	page.fill("Endpoint's URL", s.url+"/"+answerOK)
	page.press("Save")
	page.sees("shops")
	page.inspect("groups")
	page.press("Add endpoint")
	page.fill("Endpoint's URL", s.url+"/"+answerLate)
	page.press("Save")
	page.press("Remove " + s.url + "/" + answerOK)
	page.press("Keep as it is")
	page.sees("/" + answerOK)
	page.press("Remove " + s.url + "/" + answerOK)
	page.press("Remove")
	page.until(`document.querySelectorAll("td li").length === 1`, "see one endpoint of two")
	page.sees("/" + answerLate)
}

// testSignature shows a delivery that a receiver accepts, and what is wrong with it when
// its body was changed.
func testSignature(t *testing.T, b *browser, c *client) {
	request := captureDelivery(t, c, `{"hello":"world"}`)
	page := b.open(t, desktop, c.console("/signature"))
	page.paste("Request", request)
	page.press("Check")
	page.sees("The claims are valid. Give a signing key to check the signature too.")
	page.press("Use this server's keys")
	page.until(`[...document.querySelectorAll("input")].some((field) => field.value.startsWith("sig_"))`, "see the keys")
	page.press("Check")
	page.sees("The signature is valid.")
	page.sees("the request does not show whether the scheme is http or https")
	page.inspect("signature-scheme")
	page.paste("Body", `{ "hello": "world" }`)
	page.press("Check")
	page.sees("A receiver rejects it because of body.")
	page.inspect("signature")
}

// captureDelivery has a body delivered and returns the request as it arrived.
func captureDelivery(t *testing.T, c *client, body string) string {
	t.Helper()
	captured := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		dump, err := httputil.DumpRequest(r, true)
		if err != nil {
			t.Error(err)
		}
		captured <- string(dump)
	}))
	t.Cleanup(receiver.Close)
	if _, err := c.publish(t.Context(), receiver.URL+"/hook?a=1", nil, body); err != nil {
		t.Fatal(err)
	}
	select {
	case request := <-captured:
		return request
	case <-time.After(patience):
		t.Fatal("nothing was delivered")
		return ""
	}
}

// awaitLog waits until the log has so many entries that match.
func (c *client) awaitLog(t *testing.T, query url.Values, many int) {
	t.Helper()
	await(t, fmt.Sprintf("%d entries of %v", many, query), func() bool {
		page, err := c.logs(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Events) >= many
	})
}

// awaitDeadRuns waits until so many runs have failed for good.
func (c *client) awaitDeadRuns(t *testing.T, many int) {
	t.Helper()
	await(t, fmt.Sprintf("%d failed runs", many), func() bool {
		var page struct{ Messages []struct{} }
		if err := c.call(t.Context(), http.MethodGet, "/v2/workflows/dlq", nil, "", &page); err != nil {
			t.Fatal(err)
		}
		return len(page.Messages) >= many
	})
}

// testKeys finds its way by keyboard alone.
func testKeys(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.console(""))
	page.sees("Time of an attempt")
	for _, step := range []struct{ keys, title string }{
		{"gm", "Messages"}, {"gl", "Messages"}, {"gr", "Workflow runs"}, {"gd", "Dead letters"}, {"gq", "Queues"},
	} {
		page.do(chromedp.KeyEvent(step.keys))
		page.until(fmt.Sprintf(`document.querySelector("h1").innerText === %q`, step.title), "go to "+step.title)
		if step.keys == "gm" {
			page.do(chromedp.KeyEvent("j"))
			page.until(`document.activeElement.getAttribute("role") === "grid"`, "move into the table")
		}
	}
	page.do(chromedp.KeyEvent("?"))
	page.sees("Move in a table")
	page.inspect("keys")
	page.do(chromedp.KeyEvent(kb.Escape))
	page.misses("Move in a table")
	page.do(chromedp.KeyEvent("/nothing"))
	page.sees("0 queues")
}

// testPhone looks at each view on a phone.
func testPhone(t *testing.T, b *browser, c *client) {
	page := b.open(t, phone, c.console(""))
	for _, view := range []struct{ name, shows string }{
		{"overview", "Failing destinations"}, {"messages", "DELIVERED"}, {"logs", "cancel requested"}, {"runs", "Start a run…"}, {"dlq/messages", "Messages"}, {"queues", "ACTIVE"},
		{"schedules", "PAUSED"}, {"groups", "shops"}, {"flow", "tenant/7"}, {"signature", "Current signing key"},
	} {
		page.do(chromedp.Navigate(c.base + "/console/" + view.name))
		page.sees(view.shows)
		page.inspect(path.Base(view.name) + "-phone")
		for _, element := range []string{"html", ".view", ".table"} {
			wide := evaluate[int](page, fmt.Sprintf(`((e) => e === null ? 0 : e.scrollWidth - e.clientWidth)(document.querySelector(%q))`, element))
			if wide > 0 {
				t.Errorf("%s: %s is %d pixels too wide for a phone", view.name, element, wide)
			}
		}
		beyond := evaluate[[]string](page, `[...document.querySelectorAll("main button, main a, main td")].filter((part) => part.getBoundingClientRect().right > innerWidth).map((part) => part.innerText)`)
		if len(beyond) > 0 {
			t.Errorf("%s: %q are beyond the edge of a phone", view.name, beyond)
		}
		covered := evaluate[[]string](page, `[...document.querySelectorAll("main td[data-column]")].filter((cell) => {
			const content = document.createRange();
			content.selectNodeContents(cell);
			return cell.innerText !== "" && content.getBoundingClientRect().left < cell.getBoundingClientRect().left + 100;
		}).map((cell) => cell.innerText)`)
		if len(covered) > 0 {
			t.Errorf("%s: %q are written over the names of their columns", view.name, covered)
		}
	}
	testNarrowPhone(t, b, c)
}

// testNarrowPhone looks at what needs the most room on the narrowest of phones: whole states
// and times, two words beside each other, and the name above the last of all views.
func testNarrowPhone(t *testing.T, b *browser, c *client) {
	t.Helper()
	page := b.open(t, narrowPhone, c.console("/logs"))
	page.sees("read so far")
	touching := evaluate[bool](page, `(() => {
		const [from, read, to] = [...document.querySelectorAll(".histogram-scale > span")].map((span) => span.getBoundingClientRect());
		return read.top < from.bottom - 2 && (read.left < from.right + 4 || to.left < read.right + 4);
	})()`)
	if touching {
		t.Error("the texts below the histogram run into each other")
	}
	page.do(chromedp.Navigate(c.base + "/console/logs?state=CANCEL_REQUESTED"))
	page.sees("entries in all.")
	page.inspect("logs-narrow")
	cut := evaluate[[]string](page, `[...document.querySelectorAll(".table-body .badge, .table-body time")].filter((part) => {
		const [inner, outer] = [part.getBoundingClientRect(), part.parentElement.getBoundingClientRect()];
		return inner.right > outer.right || inner.height > 32;
	}).map((part) => part.innerText)`)
	if len(cut) > 0 {
		t.Errorf("%q are cut", cut)
	}
	page.press("Signature")
	page.sees("Current signing key")
	if left := evaluate[float64](page, `document.querySelector(".brand").getBoundingClientRect().left`); left < 0 {
		t.Errorf("the name begins %v pixels left of the window", -left)
	}
}
