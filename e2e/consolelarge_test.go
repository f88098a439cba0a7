package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// testLargeMessages looks at a large message that was tried often: it is seen as it is, with
// its whole life, and no view fetches bodies that it does not show.
func testLargeMessages(t *testing.T, b *browser, c *client) {
	const bodySize, retries, mostFetched = 600_000, 20, 1_000_000
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("no ", 1000)+"at all", http.StatusInternalServerError)
	}))
	t.Cleanup(receiver.Close)
	settings := map[string]string{"Upstash-Retries": "20", "Upstash-Retry-Delay": "1"}
	large, err := c.publish(t.Context(), receiver.URL, settings, strings.Repeat("x", bodySize))
	if err != nil {
		t.Fatal(err)
	}
	waits, err := c.publish(t.Context(), receiver.URL, map[string]string{"Upstash-Delay": "1h"}, "tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.awaitLog(t, url.Values{"messageId": {large}, "state": {"FAILED"}, "trimBody": {"-1"}}, 1)

	for view, shows := range map[string]string{
		"/overview":           "Failing destinations",
		"/logs?live=1":        "Live",
		"/logs?open=" + waits: "It was published with a delay and is due",
	} {
		page := b.open(t, desktop, c.console(view))
		page.sees(shows)
		if bytes := page.fetched("/v2/"); bytes > mostFetched {
			t.Errorf("%s fetches %d bytes, want %d at most: entries without bodies", view, bytes, mostFetched)
		}
	}
	testLargeDeadLetters(t, b, c, bodySize)
	page := b.open(t, desktop, c.console("/logs?open="+large))
	page.until(`document.querySelector(".drawer h2 .badge")?.innerText === "FAILED"`, "see that it has failed")
	if bytes := page.fetched("/v2/logs"); bytes > 2*bodySize+mostFetched {
		t.Errorf("the life of a message takes %d bytes, want its body once", bytes)
	}
	if changes := evaluate[int](page, `document.querySelectorAll(".timeline > li").length`); changes != 4+3*retries {
		t.Errorf("the timeline has %d changes, want %d", changes, 4+3*retries)
	}
	page.misses("Cancel")
	page.misses("at all")
	page.press("Show the whole response")
	page.sees("at all")
}

// testLargeDeadLetters sees why a large message failed, and how many are to be retried.
func testLargeDeadLetters(t *testing.T, b *browser, c *client, bodySize int) {
	t.Helper()
	page := b.open(t, desktop, c.console("/dlq/messages"))
	page.sees("no no no")
	page.press("Select all that match")
	page.press("Retry…")
	page.sees("would be published again")
	if bytes := page.fetched("/v2/dlq"); bytes == 0 || bytes >= bodySize {
		t.Errorf("dead letters take %d bytes, want some, and fewer than a body of one has", bytes)
	}
}

// testRefusal asks for what the server refuses, and is told so.
func testRefusal(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.console("/logs?state=BOGUS&live=1"))
	page.sees(`state "BOGUS" is not one of`)
	page.misses("Connecting…")
	page = b.open(t, desktop, c.console("/logs?order=latestFirst&live=1"))
	page.sees("Live")
}
