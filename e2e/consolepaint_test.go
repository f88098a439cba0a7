package e2e

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	paintEntries = flag.Int("paint-entries", 0, "how many entries the log has whose first paint is measured; 0 does not measure it")
	paintData    = flag.String("paint-data", "", "data directory of that log, which stays for another run; a temporary one unless given")
)

// testFirstPaint opens the log while the server does not answer what is in it: the view is
// there, has asked before the frame that shows it, and has its rows when the answer comes.
func testFirstPaint(t *testing.T, b *browser, c *client) {
	target, err := url.Parse(c.base)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	forward := httputil.NewSingleHostReverseProxy(target)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/logs") {
			<-answered
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	page := b.open(t, desktop, (&client{base: slow.URL, token: c.token}).console("/logs"))
	page.until(`document.querySelector("h1")?.innerText === "Messages" && performance.getEntriesByName("first-contentful-paint").length === 1`,
		"see the view before the log")
	if !evaluate[bool](page, `seen.askedBeforeView === true`) {
		t.Error("the page shows the view before it asks for the log")
	}
	close(answered)
	page.until(`seen.firstRow > 0`, "see the first row")
}

// firstPaint returns when the page had painted anything of use, in milliseconds after its
// address was opened, as the browser tells it.
func (p *tab) firstPaint() float64 {
	p.t.Helper()
	return evaluate[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
}

// TestFirstPaint measures how soon the view of a long log is there, in a browser that has
// not seen it before. It proves nothing: run it on a machine that does nothing else.
func TestFirstPaint(t *testing.T) {
	onceOnly(t)
	if *paintEntries == 0 {
		t.Skip("give -paint-entries to measure it")
	}
	directory := *paintData
	if directory == "" {
		directory = t.TempDir()
	}
	_, c := startServe(t, directory, "--log-level", "error")
	lengthenLog(t, c, *paintEntries)
	b := startBrowser(t, withWindows)
	const times = 15
	var paints, rows []float64
	for range times {
		t.Run("opened", func(t *testing.T) { // which closes the page at its end
			page := b.open(t, desktop, c.console("/logs"))
			page.until(`seen.firstRow > 0`, "see the first row")
			paints, rows = append(paints, page.firstPaint()), append(rows, evaluate[float64](page, `seen.firstRow`))
		})
	}
	if t.Failed() {
		t.FailNow()
	}
	slices.Sort(paints)
	slices.Sort(rows)
	t.Logf("%d entries, opened %d times, median and highest: first contentful paint %.0f and %.0f ms, first row painted %.0f and %.0f ms",
		c.logged(t), times, paints[times/2], paints[times-1], rows[times/2], rows[times-1])
}

// lengthenLog publishes messages that are due much later until the log has so many entries.
func lengthenLog(t *testing.T, c *client, entries int) {
	t.Helper()
	const atOnce, publishers = 1000, 4
	one := `{"destination":"http://127.0.0.1:1/orders","headers":{"Upstash-Delay":"300d","Upstash-Label":"long"},"body":"{\"order\":1}"}`
	batch := "[" + strings.Repeat(one+",", atOnce-1) + one + "]"
	begin, missing := time.Now(), max(0, entries-c.logged(t))
	var taken atomic.Int64
	var publishing sync.WaitGroup
	for range publishers {
		publishing.Go(func() {
			for taken.Add(atOnce) < int64(missing+atOnce) && !t.Failed() {
				if err := c.call(t.Context(), http.MethodPost, "/v2/batch", nil, batch, nil); err != nil {
					t.Errorf("publish: %v", err)
				}
			}
		})
	}
	publishing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d messages were published in %s", missing, time.Since(begin).Round(time.Second))
}

// logged returns how many entries the log has.
func (c *client) logged(t *testing.T) int {
	t.Helper()
	var usage struct {
		Log struct{ Entries int }
	}
	mustCall(t, c, http.MethodGet, "/v2/usage", nil, "", &usage)
	return usage.Log.Entries
}
