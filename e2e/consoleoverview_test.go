package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// testOverview sees what was delivered, retried and failed as the server counts it, which paths
// fail, and goes from a bar of the chart to the messages of its hour.
func testOverview(t *testing.T, b *browser, c *client, s *sink) {
	for kind, settings := range map[string]map[string]string{
		answerOK:     {},
		answerBroken: {"Upstash-Retries": "1", "Upstash-Retry-Delay": "1"},
	} {
		if _, err := c.publish(t.Context(), s.url+"/"+kind+"/overview", settings, "x"); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitLog(t, url.Values{"path": {"/broken/overview"}, "state": {"FAILED"}}, 1)
	page := b.open(t, desktop, c.console("/overview"))
	page.sees("/broken/overview")
	var stats struct {
		Total struct{ States map[string]int }
	}
	mustCall(t, c, http.MethodGet, "/v2/logs/stats", nil, "", &stats)
	says := evaluate[string](page, `document.querySelector(".chart svg").getAttribute("aria-label")`)
	for _, part := range []string{fmt.Sprintf("%d delivered", stats.Total.States["DELIVERED"]), fmt.Sprintf("%d retried", stats.Total.States["RETRY"]), fmt.Sprintf("%d failed", stats.Total.States["FAILED"])} {
		if !strings.Contains(says, part) {
			t.Errorf("the chart says %q, want %q in it", says, part)
		}
	}
	failing := evaluate[[]string](page, `[...document.querySelectorAll("[aria-label='Failing destinations'] tbody tr")].find((row) => row.innerText.includes("/broken/overview"))
		?.innerText.split(/\s+/) ?? []`)
	if text := strings.Join(failing, " "); !strings.Contains(text, "100 %") || !strings.Contains(text, "5xx 2") {
		t.Errorf("the path that failed twice is shown as %q", text)
	}
	page.inspect("overview-charts")
	page.press("30 days")
	page.until(`location.search === "?range=30d" && document.querySelector(".chart svg").viewBox.baseVal.width === 30`, "see thirty days")
	page.press("24 hours")
	page.until(`document.querySelector(".chart svg").viewBox.baseVal.width === 24`, "see 24 hours")
	page.until(`(() => {
		const chart = document.querySelector(".chart svg");
		const box = chart.getBoundingClientRect();
		chart.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 2, clientY: box.top + 9, bubbles: true }));
		return document.querySelector(".read-out")?.innerText.includes("delivered") === true;
	})()`, "read the last hour out")
	evaluate[bool](page, `(() => {
		const box = document.querySelector(".chart svg").getBoundingClientRect();
		return document.querySelector(".chart svg").dispatchEvent(new MouseEvent("click", { clientX: box.right - 2, clientY: box.top + 9, bubbles: true }));
	})()`)
	page.until(`location.pathname === "/console/messages" && location.search.startsWith("?fromDate=")`, "see the messages of that hour")
	page.row("/broken/overview")
}
