package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// row returns the cells of the row that shows a text, by the names of their columns.
func (p *tab) row(text string) map[string]string {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(".table-body .row")].find((row) => row.innerText.includes(%q))`, text)
	p.until(find+` !== undefined`, "see the row of "+text)
	return evaluate[map[string]string](p, `((row) => {
		const names = [...document.querySelectorAll(".table-head [role=columnheader]")].map((cell) => cell.innerText);
		return Object.fromEntries([...row.querySelectorAll("[role=gridcell]")].map((cell, i) => [names[i], cell.innerText.trim()]));
	})(`+find+`)`)
}

// testMessages sees one row for each message, however often it has changed: how it is, what
// its last attempt was answered with, how many it took, how it came, and why it failed.
func testMessages(t *testing.T, b *browser, c *client, s *sink) {
	publish := func(kind string, headers map[string]string) {
		headers["Upstash-Label"] = "rows," + kind
		if _, err := c.publish(t.Context(), s.url+"/"+kind+"/rows", headers, "x"); err != nil {
			t.Fatal(err)
		}
	}
	publish(answerOK, map[string]string{})
	publish(answerFlaky, map[string]string{"Upstash-Retry-Delay": "1"})
	publish(answerBroken, map[string]string{"Upstash-Retry-Delay": "3600000"})
	publish(answerRejected, map[string]string{"Upstash-Retries": "0"})
	if _, err := c.enqueue(t.Context(), "rows", s.url+"/"+answerOK+"/queued", map[string]string{"Upstash-Label": "rows"}, "x"); err != nil {
		t.Fatal(err)
	}
	defer mustCall(t, c, http.MethodDelete, "/v2/queues/rows", nil, "", nil)
	c.awaitLog(t, url.Values{"label": {"rows"}, "state": {"DELIVERED", "FAILED", "RETRY"}}, 6)
	page := b.open(t, desktop, c.console("/messages?label=rows"))
	page.sees("5 messages")
	page.inspect("messages")
	for _, want := range []struct{ text, state, status, attempts, via, why string }{
		{"/ok/rows", "DELIVERED", "2", "1 of 4", "", ""},
		{"/flaky/rows", "DELIVERED", "2", "2 of 4", "", ""},
		{"/broken/rows", "RETRY", "500", "1 of 4", "", "next attempt at "},
		{"/rejected/rows", "FAILED", "489", "1 of 1", "", ""},
		{"/ok/queued", "DELIVERED", "2", "1 of 4", "queue rows", ""},
	} {
		cells := page.row(want.text)
		if cells["State"] != want.state || !strings.HasPrefix(cells["Status"], want.status) || cells["Attempts"] != want.attempts ||
			cells["Via"] != want.via || !strings.HasPrefix(cells["Why"], want.why) || (cells["Took"] == "") != (want.state == "RETRY") {
			t.Errorf("the row of %s is %v, want %v", want.text, cells, want)
		}
	}

	// A state is that of the message: what was retried before and is delivered now is not shown.
	page.choose("Filter by", "State")
	page.choose("State", "RETRY")
	page.sees("1 message")
	page.row("/broken/rows")
	page.press("Log of changes")
	page.until(`location.pathname === "/console/logs" && location.search === "?label=rows&state=RETRY"`, "keep the filters")
	page.until(`document.querySelectorAll(".table-body .row").length === 2`, "see both changes to RETRY")
	page.press("By message")
	page.press("Remove filter State: RETRY")
	page.sees("5 messages")
	testLiveMessages(t, page, c, s)
}

// testLiveMessages follows the list: a new message is put before the others, and a row changes
// in its place.
func testLiveMessages(t *testing.T, page *tab, c *client, s *sink) {
	t.Helper()
	page.press("Follow")
	page.sees("Live")
	id, err := c.publish(t.Context(), s.url+"/"+answerOK+"/live", map[string]string{"Upstash-Label": "rows", "Upstash-Delay": "1h"}, "x")
	if err != nil {
		t.Fatal(err)
	}
	if cells := page.row("/ok/live"); cells["State"] != "CREATED" || !strings.HasPrefix(cells["Why"], "due at ") {
		t.Errorf("the row of a message that waits is %v", cells)
	}
	mustCall(t, c, http.MethodPost, "/v2/messages/"+id+"/retry", nil, "", nil)
	page.until(`document.querySelector(".table-body .row").innerText.startsWith("DELIVERED")`, "see it delivered, in the first row")
	page.sees("6 messages")
	ids := evaluate[[]string](page, `[...document.querySelectorAll(".table-body a.row")].map((row) => new URL(row.href).searchParams.get("open"))`)
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 6 {
		t.Errorf("rows lead to %v, want six messages", ids)
	}
}
