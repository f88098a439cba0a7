package e2e

import (
	"net/http"
	"testing"
)

// testHeld learns from the overview why messages are overdue: which queue and which
// flow-control key hold them back.
func testHeld(t *testing.T, b *browser, c *client, s *sink) {
	key := map[string]string{"Upstash-Flow-Control-Key": "held/1", "Upstash-Flow-Control-Value": "parallelism=2"}
	c.post(t, "/v2/queues", `{"queueName":"held","parallelism":1}`)
	c.post(t, "/v2/queues/held/pause", "")
	c.post(t, "/v2/flowControl/held%2F1/pause", "")
	if _, err := c.enqueue(t.Context(), "held", s.url+"/"+answerOK, nil, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.publish(t.Context(), s.url+"/"+answerOK, key, "x"); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/overview"))
	page.sees("Oldest due message")
	page.misses("What blocks messages")
	evaluate[bool](page, `(window.online = window.fetch, window.fetch = (path, options) => path.startsWith("/metrics")
		? Promise.resolve(new Response("posthaste_due_backlog_age_seconds 0\nposthaste_paused_backlog_age_seconds 480\n")) : window.online(path, options), true)`)
	page.press("Messages")
	page.press("Overview")
	page.sees("the oldest paused one for")
	page.press("why")
	page.until(`location.pathname === "/console/overview" && location.hash === "#held"`, "stay on the page")
	page.sees("is paused: it delivers nothing until it is resumed.")
	page.sees("is paused: its messages are not delivered until it is resumed.")
	page.inspect("overview-held")
	page.press("key held/1")
	page.until(`document.querySelector("h1").innerText === "Flow-control keys"`, "see the keys")
	c.post(t, "/v2/flowControl/held%2F1/resume", "")
	if err := c.call(t.Context(), http.MethodDelete, "/v2/queues/held", nil, "", nil); err != nil {
		t.Fatal(err)
	}
}
