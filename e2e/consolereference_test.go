package e2e

import (
	"fmt"
	"testing"
)

// testReference looks for faults of accessibility in the description of the API. One template
// makes all its articles: each eighth stands for them, which saves most of the time.
func testReference(t *testing.T, b *browser, c *client) {
	for _, size := range [][2]int64{desktop, phone} {
		page := b.open(t, size, c.base+"/docs")
		page.sees("openapi.yaml")
		evaluate[bool](page, `(document.querySelectorAll("article, nav li").forEach((one, i) => i % 8 > 0 && one.remove()), true)`)
		page.inspect(fmt.Sprintf("reference-%d", size[0]))
	}
}
