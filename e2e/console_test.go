package e2e

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var consoleRows = flag.Int("console-rows", 2500, "how many entries the long log of the console's test has, at most 100000")

// TestConsoleIsBuiltFromItsSources checks the sources of the console and tests their
// rules, builds them anew and compares that, byte by byte, with what the program embeds.
func TestConsoleIsBuiltFromItsSources(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	needModules(t, webDirectory)
	built := t.TempDir()
	for _, command := range [][]string{{"npx", "tsc", "--noEmit"}, {"node", "test.mjs"}, {"node", "build.mjs", built}} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = webDirectory
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, output)
		}
	}
	const embedded = "../internal/console/assets"
	want, got := readFiles(t, built), readFiles(t, embedded)
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s is not what web/ makes: run make console", name)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s is embedded, and nothing in web/ makes it", name)
		}
	}
}

func readFiles(t *testing.T, directory string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(directory, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestConsole clicks through the stories of the console in a browser, against a server.
// What the pages say to it has to be as the API is described.
func TestConsole(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	b := startBrowser(t, withoutWindows)
	server, direct := startDev(t, "--port", "0")
	c := &client{base: described(t, direct.base), token: direct.token, http: direct.http}
	s := newSink(t)
	t.Run("signing in", func(t *testing.T) { testSignIn(t, b, c) })
	t.Run("signing in by the link that the server prints", func(t *testing.T) {
		link := regexp.MustCompile(`http\S+/console#\S+`).FindString(server.output.String())
		page := b.open(t, desktop, link)
		page.sees("defaultUser")
		if left := evaluate[string](page, `location.hash`); left != "" {
			t.Errorf("the token stays in the address: %s", left)
		}
	})
	t.Run("a token that has ended", func(t *testing.T) { testEndedToken(t, b, c) })
	t.Run("the first steps of the guide", func(t *testing.T) { testFirstSteps(t, b) })
	t.Run("a server without messages", func(t *testing.T) { testWelcome(t, b) })
	t.Run("the first visit", func(t *testing.T) { testFirstVisit(t, b, c) })
	t.Run("the log", func(t *testing.T) { testLogView(t, b, c, s) })
	t.Run("a run", func(t *testing.T) { testRunView(t, b, c) })
	t.Run("messages", func(t *testing.T) { testMessages(t, b, c, s) })
	t.Run("a long log", func(t *testing.T) { testLongLog(t, b, c) })
	t.Run("its first paint", func(t *testing.T) { testFirstPaint(t, b, direct) })
	t.Run("a log that cannot be followed", func(t *testing.T) { testRefusal(t, b, c) })
	t.Run("large messages", func(t *testing.T) { testLargeMessages(t, b, c) })
	t.Run("publishing again", func(t *testing.T) { testPublishingAgain(t, b, c, s) })
	t.Run("dead letters", func(t *testing.T) { testDeadLetters(t, b, c, s) })
	t.Run("a dead letter that is gone", func(t *testing.T) { testGoneDeadLetter(t, b, c, s) })
	t.Run("runs in a dry run", func(t *testing.T) { testNamedRuns(t, b, c, s) })
	t.Run("messages in a dry run", func(t *testing.T) { testNamedMessages(t, b, c, s) })
	t.Run("lanes", func(t *testing.T) { testLanes(t, b, c, s) })
	t.Run("schedules and groups", func(t *testing.T) { testSchedules(t, b, c, s) })
	t.Run("a schedule saved as it was", func(t *testing.T) { testScheduleSaved(t, b, c, s) })
	t.Run("a queue that is there", func(t *testing.T) { testQueueInUse(t, b, c) })
	t.Run("the focus behind a dialog", func(t *testing.T) { testFocus(t, b, c, s) })
	t.Run("times that are none", func(t *testing.T) { testBadTimes(t, b, c) })
	t.Run("cron expressions in words", func(t *testing.T) { testCronWords(t, b, c, s) })
	t.Run("what holds messages back", func(t *testing.T) { testHeld(t, b, c, s) })
	t.Run("second clicks", func(t *testing.T) { testSecondClicks(t, b, c, s) })
	t.Run("running now", func(t *testing.T) { testRunNow(t, b, c, s) })
	t.Run("starting again", func(t *testing.T) { testStartAgain(t, b, c, s) })
	t.Run("dead letters that are open", func(t *testing.T) { testOpenDeadLetters(t, b, c, s) })
	t.Run("failed entries", func(t *testing.T) { testFailedEntries(t, b, c, s) })
	t.Run("tabs", func(t *testing.T) { testTabs(t, b, c, s) })
	t.Run("the focus of views", func(t *testing.T) { testFocusOfViews(t, b, c, s) })
	t.Run("widths of windows", func(t *testing.T) { testWidths(t, b, c, s) })
	t.Run("the reference", func(t *testing.T) { testReference(t, b, direct) })
	t.Run("keys", func(t *testing.T) { testKeys(t, b, c) })
	t.Run("the filter bar", func(t *testing.T) { testFilterBar(t, b, c) })
	t.Run("no request to check", func(t *testing.T) { testNoRequest(t, b, c) })
	t.Run("a phone", func(t *testing.T) { testPhone(t, b, c) })
	t.Run("causes", func(t *testing.T) { testCauses(t, b, c, s) })
	t.Run("the overview", func(t *testing.T) { testOverview(t, b, c, s) })
	t.Run("signatures", func(t *testing.T) { testSignature(t, b, c) })
	t.Run("settings", func(t *testing.T) { testSettings(t, b, c) })
}

// console returns the address of a view for somebody who is signed in by it.
func (c *client) console(view string) string { return c.base + "/console" + view + "#token=" + c.token }

func testSignIn(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.base+"/console/logs")
	page.inspect("sign-in")
	page.fill("Token", c.token)
	page.press("Sign in")
	page.sees("defaultUser")
	page.press("Sign out")
	page.sees("posthaste dev prints it")
	if kept := evaluate[int](page, `sessionStorage.length`); kept != 0 {
		t.Errorf("%d things are kept after signing out", kept)
	}
	page.fill("Token", "nobody's")
	page.press("Sign in")
	page.sees("token")
	page.until(`document.querySelector(".fault") !== null`, "be refused")

	reader := base64.StdEncoding.EncodeToString([]byte(`{"UserID":"defaultUser","Password":"defaultPassword","ReadOnly":true}`))
	page = b.open(t, phone, c.as(reader).console("/queues"))
	page.sees("There is no queue yet")
	if !evaluate[bool](page, `[...document.querySelectorAll("button")].find((b) => b.innerText === "New queue").disabled`) {
		t.Error("a token that may only read is offered to make a queue")
	}
}

// testLogView finds a message that fails among others, follows the log, and publishes
// the message again, from the DLQ.
func testLogView(t *testing.T, b *browser, c *client, s *sink) {
	const markup = `<img src=x onerror="document.title='run'"><b>bold</b>`
	settings := map[string]string{"Upstash-Retries": "0", "Upstash-Label": "invoice"}
	publish := func(kind string) {
		if _, err := c.publish(t.Context(), s.url+"/"+kind+"/1", settings, markup); err != nil {
			t.Fatal(err)
		}
		c.awaitLog(t, url.Values{"url": {s.url + "/" + kind + "/1"}}, 3)
	}
	publish(answerOK)
	page := b.open(t, desktop, c.console("/logs"))
	page.sees("DELIVERED")
	publish(answerBroken) // while nobody follows
	page.press("Follow")
	page.sees("Live")
	page.sees("500 Internal Server Error")
	publish(answerFlaky)
	page.sees("/flaky/1")
	page.inspect("logs")
	page.press("Live")
	page.sees("Follow")
	publish(answerRejected) // while nobody follows any more
	page.press("Follow")
	page.sees("Live")
	page.sees("/rejected/1")

	page.choose("Filter by", "State")
	page.choose("State", "FAILED")
	page.misses("DELIVERED")
	if search := evaluate[string](page, `location.search`); search != "?live=1&state=FAILED" {
		t.Errorf("the address has the filters %q", search)
	}
	page.openFirstRow()
	page.sees("The attempt failed")
	page.sees(markup)
	page.inspect("message")
	if title := evaluate[string](page, `document.title`); title != "Log · Posthaste" {
		t.Errorf("a payload has changed the title to %q", title)
	}

	first := evaluate[string](page, `document.querySelector(".drawer code").innerText`)
	page.press("Retry")
	page.until(fmt.Sprintf(`document.querySelector(".drawer code").innerText !== %q && document.querySelector(".timeline .failed") !== null`, first), "see it fail again")
	again := evaluate[string](page, `document.querySelector(".drawer code").innerText`)
	if arrived := s.taken(); len(arrived[again]) != 1 {
		t.Errorf("message %s has arrived %d times, want once", again, len(arrived[again]))
	}
	page.do(chromedp.KeyEvent(kb.Escape))
	page.misses("Timeline")
	testRange(t, page)
}

// testRange drags over the left half of the histogram, which becomes the range of the view.
func testRange(t *testing.T, page *tab) {
	half := evaluate[bool](page, `(async () => {
		const chart = document.querySelector(".histogram svg");
		const box = chart.getBoundingClientRect();
		for (const [type, x] of [["pointerdown", 0.01], ["pointermove", 0.3], ["pointermove", 0.5], ["pointerup", 0.5]]) {
			chart.dispatchEvent(new PointerEvent(type, { clientX: box.left + x * box.width, clientY: box.top + 9, bubbles: true }));
			await new Promise(requestAnimationFrame);
			await new Promise(requestAnimationFrame);
		}
		const chosen = new URLSearchParams(location.search);
		return Number(chosen.get("fromDate")) > 0 && Number(chosen.get("fromDate")) < Number(chosen.get("toDate"));
	})()`)
	if !half {
		t.Errorf("a range that was dragged over is not in the address %s", evaluate[string](page, `location.search`))
	}
	page.press("Clear")
	page.until(`!location.search.includes("Date")`, "clear the range")
}

// testLongLog goes to the end of a log of several pages: each is read when it is needed,
// and no more rows are drawn than can be seen.
func testLongLog(t *testing.T, b *browser, c *client) {
	publishLater(t, c, *consoleRows, "long")
	page := b.open(t, desktop, c.console("/logs?label=long"))
	page.sees("entries read so far")
	page.do(chromedp.Focus(chromedp.CSS(`[role=grid]`)))
	page.until(fmt.Sprintf(`(() => {
		document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
		return document.querySelector("[role=grid]").getAttribute("aria-rowcount") === "%d";
	})()`, *consoleRows), "come to the end of the log")
	page.sees("entries in all.")
	if loads := evaluate[int](page, `performance.getEntriesByType("navigation").length`); loads != 1 {
		t.Errorf("the page was loaded %d times", loads)
	}
	drawn := evaluate[int](page, `seen.mostRows`)
	if most := 150; drawn > most {
		t.Errorf("%d rows were drawn at once, want %d at most: those that can be seen", drawn, most)
	}
	asked := page.asked("/v2/")
	if most := 2 + *consoleRows/1000; asked > most {
		t.Errorf("the page has asked %d questions, want %d at most: a screen, and then a thousand entries with each", asked, most)
	}
	heap := page.heap()
	if most := 10e6 + 1000*float64(*consoleRows); heap > most {
		t.Errorf("the page keeps %.1f MB, want %.1f MB at most: a kilobyte for each entry", heap/1e6, most/1e6)
	}
	t.Logf("first contentful paint after %.0f ms, first row painted after %.0f ms; %d entries: %d questions, %d rows drawn at most, %.0f MB kept",
		page.firstPaint(), evaluate[float64](page, `seen.firstRow`), *consoleRows, asked, drawn, heap/1e6)
}

// heap returns how many bytes the page keeps, once what it does not need is collected.
func (p *tab) heap() float64 {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		p.t.Fatal(err)
	}
	return evaluate[float64](p, `performance.memory.usedJSHeapSize`)
}

// publishLater publishes messages with a label that are due in an hour.
func publishLater(t *testing.T, c *client, messages int, label string) {
	t.Helper()
	const atOnce = 1000
	one := fmt.Sprintf(`{"destination":"http://127.0.0.1:1/","headers":{"Upstash-Delay":"1h","Upstash-Label":%q}}`, label)
	for left := messages; left > 0; left -= atOnce {
		batch := "[" + strings.Repeat(one+",", min(left, atOnce)-1) + one + "]"
		if err := c.call(t.Context(), http.MethodPost, "/v2/batch", nil, batch, nil); err != nil {
			t.Fatal(err)
		}
	}
}
