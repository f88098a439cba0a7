package e2e

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// testReference looks for faults of accessibility in the documentation, and tries an operation. One
// template makes all articles of the reference: each eighth stands for them, which saves most of
// the time.
func testReference(t *testing.T, b *browser, c *client) {
	for _, size := range [][2]int64{desktop, phone} {
		page := b.open(t, size, c.base+"/docs/reference")
		page.sees("openapi.yaml")
		evaluate[bool](page, `(document.querySelectorAll("article, .operations li").forEach((one, i) => i % 8 > 0 && one.remove()), true)`)
		evaluate[bool](page, `document.querySelector(".try").open = true`)
		page.sees("Authorization: Bearer $QSTASH_TOKEN")
		page.inspect(fmt.Sprintf("reference-%d", size[0]))
	}

	page := b.open(t, phone, c.base+"/docs")
	page.sees("Restarting a failed run")
	addresses := evaluate[[]string](page, `[...new Set([...document.querySelectorAll("nav a[href^='/docs']")].map((one) => one.href))]`)
	if len(addresses) < 15 {
		t.Errorf("the navigation of /docs has %d pages, want at least 15", len(addresses))
	}
	for _, address := range append(addresses, c.base+"/docs/search?q=restart") {
		if !strings.HasSuffix(address, "/docs/reference") {
			page.do(chromedp.Navigate(address))
			page.inspect(path.Base(address))
		}
	}

	page = b.open(t, desktop, c.base+"/docs/search?q=restart")
	page.sees("API reference")
	page = b.open(t, desktop, c.base+"/docs/reference")
	page.fill("Token, to try operations", c.token)
	evaluate[bool](page, `(document.querySelectorAll("article:not(#listLogs)").forEach((one) => one.remove()), document.querySelector("#listLogs .try").open = true)`)
	page.fill("count (query)", "1")
	page.press("TypeScript")
	page.sees("await fetch(")
	page.press("Send this GET request")
	page.sees("200 OK")
	page.sees(`"events"`)
}
