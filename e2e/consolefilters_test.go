package e2e

import (
	"net/url"
	"strings"
	"testing"
)

// testEndedToken is told why it has to sign in again.
func testEndedToken(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.console("/runs")) // which asks for nothing by itself
	page.sees("defaultUser")
	evaluate[bool](page, `(sessionStorage.setItem("posthaste.token", "bm9ib2R5OnM="), true)`)
	page.press("Messages")
	page.sees("You were signed out: the token is not known to this server")
	page.inspect("sign-in-again")
	page.fill("Token", c.token)
	page.press("Sign in")
	page.sees("defaultUser")
	page.press("Sign out")
	page.sees("posthaste dev prints it")
	page.misses("You were signed out")
}

// testFilterBar looks at a filter that is too long for a phone, and chooses a time.
func testFilterBar(t *testing.T, b *browser, c *client) {
	long := strings.Repeat("L", 200)
	page := b.open(t, phone, c.console("/logs?"+url.Values{"label": {long}}.Encode()))
	page.sees("Nothing matches these filters")
	page.inspect("filters-phone")
	edge := evaluate[float64](page, `Math.max(...[...document.querySelectorAll(".chip, .chip > :last-child, .new-filter")].map((part) => part.getBoundingClientRect().right))`)
	if most := evaluate[float64](page, `document.querySelector(".filters").parentElement.getBoundingClientRect().right`); edge > most {
		t.Errorf("the filters reach to pixel %v, want at most %v", edge, most)
	}
	page.press("Remove filter Label: " + long)
	page.until(`location.search === ""`, "see the filter gone")
	page.press("Any time")
	page.press("Last hour")
	page.until(`location.search.startsWith("?fromDate=")`, "see the time in the address")
	if evaluate[bool](page, `document.querySelector(".range").open`) {
		t.Error("the choice of a time stays open when one is chosen")
	}
	page.until(`document.activeElement.matches(".range summary")`, "go on by keyboard from where it was opened")
}

// testNoRequest pastes something else than a request.
func testNoRequest(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.console("/signature"))
	page.paste("Request", "hello")
	page.sees("This is not a delivery")
	page.inspect("signature-none")
	page.paste("Request", "POST / HTTP/1.1\nUpstash-Signature: a.b.c\n\n")
	page.misses("This is not a delivery")
}
