package e2e

import (
	"fmt"
	"testing"
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

		page = b.open(t, size, c.base+"/docs/guides/restart")
		page.sees("A failure and its restart")
		page.inspect(fmt.Sprintf("guide-%d", size[0]))
	}

	page := b.open(t, desktop, c.base+"/docs/search?q=restart")
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
