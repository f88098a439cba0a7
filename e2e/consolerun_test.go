package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// testRunView reads a run that failed: its steps over time, what each was given and returned,
// and where the exception was thrown. It is started with another payload and another setting,
// and compared with what it was restarted as.
func testRunView(t *testing.T, b *browser, c *client) {
	app := startOrders(t, c)
	settings := map[string]string{"Upstash-Retries": "0", "Content-Type": "application/json", "Upstash-Label": "view"}
	var run struct{ WorkflowRunID string }
	mustCall(t, c, http.MethodPost, "/v2/trigger/"+app+"/orders", settings, `{"id":"7"}`, &run)
	page := b.open(t, desktop, c.console("/runs/"+run.WorkflowRunID))
	page.sees("Step charge the card failed 1 time.")
	if together := evaluate[[]string](page, `[...document.querySelectorAll(".parallel .step-name")].map((name) => name.title)`); len(together) != 2 {
		t.Errorf("%q are shown in parallel, want two steps", together)
	}
	page.until(`document.querySelector(".step[aria-current] .step-name").title === "charge the card"`, "see the failed step selected")
	if stack := evaluate[string](page, `document.querySelector(".trace").innerText`); !strings.Contains(stack, "the card service is down\n    at ") {
		t.Errorf("the stack is shown as %q", stack)
	}
	page.sees("The payload, and the output of ")
	page.do(clickFirst(`.step:has([title="read the order"])`))
	page.until(`document.querySelector(".step-panel h2").innerText === "read the order"`, "select a step")
	page.sees(`"total": 42`)
	page.until(`new URLSearchParams(location.search).get("step") === "1"`, "see the step in the address")

	page.press("Restart with changes…")
	page.sees("Unchanged: this run is restarted")
	page.fill("Retries", "1")
	page.paste("Payload", `{"id":"8"}`)
	page.sees("A new run is started; this one stays as it is.")
	page.inspect("run-changes")
	page.press("Start a new run")
	page.until(fmt.Sprintf(`document.querySelector("h1 code").innerText !== %q`, run.WorkflowRunID), "see the new run")
	page.sees("charge the card")
	page.do(clickFirst(`.step:has([title="init"])`))
	page.sees(`"id": "8"`)
	page.sees("at most 1")
	page.press("Cancel run")
	page.press("Cancel the run")
	page.sees("It was cancelled.")

	testCompare(t, b, c, app, run.WorkflowRunID)
}

// testCompare restarts a run with another setting and compares both.
func testCompare(t *testing.T, b *browser, c *client, app, failed string) {
	t.Helper()
	if _, err := http.Post(app+"/mend", "", nil); err != nil {
		t.Fatal(err)
	}
	page := b.open(t, desktop, c.console("/runs/"+failed))
	page.press("Restart with changes…")
	page.fill("Retries", "2")
	page.press("Restart")
	page.sees("Restart of")
	page.sees("waits for the event parcel-7")
	page.choose("Compare with", "the run it restarts")
	page.until(`document.querySelector("tr.opened th")?.innerText === "charge the card"`, "see the step that ended otherwise")
	page.sees("not reached")
	page.inspect("run-compare")
	if lines := evaluate[[]string](page, `["left", "right"].map((side) => [...document.querySelectorAll(".diff ." + side)].map((line) => line.innerText).join("\n"))`); !strings.Contains(lines[0], "− WorkflowError: ") || !strings.Contains(lines[1], `"charged": 42`) {
		t.Errorf("the difference is %q", lines)
	}
	page.press("read the order")
	page.until(`document.querySelector("tr.opened th")?.innerText === "read the order" && document.querySelector(".diff .left") === null`, "see no difference")
	page.press("Cancel run")
	page.press("Cancel the run")
	page.sees("It was cancelled.")
	phonePage := b.open(t, phone, c.console("/runs/"+failed))
	phonePage.sees("How it ended")
	phonePage.inspect("run-phone")
	if wide := evaluate[int](phonePage, `((e) => e.scrollWidth - e.clientWidth)(document.querySelector(".view"))`); wide > 0 {
		t.Errorf("a run is %d pixels too wide for a phone", wide)
	}
}
