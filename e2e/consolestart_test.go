package e2e

import (
	"strings"
	"testing"
)

// testWelcome opens the console of a server that has no messages: it copies the environment of
// an app, looks at code, sends a test message and sees it arrive; then one of an app.
func testWelcome(t *testing.T, b *browser) {
	_, c := startDev(t, "--port", "0")
	page := b.open(t, desktop, c.console(""))
	page.sees("Welcome to Posthaste")
	page.sees("QSTASH_NEXT_SIGNING_KEY=••••••••")
	page.press("Copy all")
	page.until("seen.saidCopied", "be told that it is copied")
	copied := evaluate[string](page, "seen.copied")
	for _, line := range []string{"QSTASH_URL=" + c.base + "\n", "QSTASH_TOKEN=" + c.token + "\n", "QSTASH_CURRENT_SIGNING_KEY=sig_", "QSTASH_NEXT_SIGNING_KEY=sig_"} {
		if !strings.Contains(copied, line) {
			t.Errorf("the environment is %q, and lacks %q", copied, line)
		}
	}
	page.press("Copy for a shell")
	page.until(`seen.copied.startsWith("export QSTASH_URL=")`, "have lines for a shell")
	page.misses(c.token)
	page.press("Show secrets")
	page.sees("QSTASH_TOKEN=" + c.token)
	page.press("Hide secrets")
	for _, language := range []struct{ name, shows string }{
		{"TypeScript", "npm install @upstash/qstash"}, {"Next.js", "verifySignatureAppRouter"}, {"Python", "pip install qstash"}, {"Go", "qstash.NewReceiverWithEnv()"},
	} {
		page.press(language.name)
		page.sees(language.shows)
	}
	page.inspect("welcome")
	page.press("Send a test message")
	page.sees("Delivered after ")
	page.inspect("welcome-delivered")
	first := evaluate[string](page, `document.querySelector(".ticks").innerText`)

	id, err := c.publish(t.Context(), "http://127.0.0.1:1/", map[string]string{"Upstash-Retries": "0"}, "x")
	if err != nil {
		t.Fatal(err)
	}
	page.sees("Accepted: " + id)
	page.sees("Not delivered: ")
	if strings.Contains(first, id) {
		t.Errorf("%s is shown before it was published", id)
	}
	page.press("Show its life")
	page.sees("Failed permanently")
	page.press("Close message")
	page.press("Show the overview")
	page.sees("Failing destinations")
	page.press("Dead letters") // which opens where there are some
	page.sees("1 entry")
	page.sees("127.0.0.1:1")
	page.press("Connect")
	page.sees("Connect an app")
	page = b.open(t, phone, c.console("/start"))
	page.sees("Waiting for a message")
	page.inspect("start-phone")
	if wide := evaluate[int](page, `((e) => e.scrollWidth - e.clientWidth)(document.querySelector(".view"))`); wide > 0 {
		t.Errorf("the first steps are %d pixels too wide for a phone", wide)
	}
}
