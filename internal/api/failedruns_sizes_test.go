package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"posthaste/internal/workflow"
)

// TestRestartSizes restarts all that failed, page by page (contract 4.2, rules 1, 2 and 3;
// workflows 7.1).
func TestRestartSizes(t *testing.T) {
	sequential(t)
	for _, n := range []int{0, 1, 49, 50, 51, 151} {
		t.Run(fmt.Sprint(n, " runs"), func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				w.failMany(n)
				before := w.inDLQ()
				if len(before) != n {
					w.Fatalf("%d of %d runs failed", len(before), n)
				}
				w.endpoint.repair()
				pages := w.sweep("count=100")
				if want := max(1, (n+49)/50); len(pages) != want {
					t.Errorf("%d pages, want %d", len(pages), want)
				}
				var all restarted
				for _, page := range pages {
					if len(page.WorkflowRuns) > 50 {
						t.Errorf("%d runs at once", len(page.WorkflowRuns))
					}
					all.WorkflowRuns = append(all.WorkflowRuns, page.WorkflowRuns...)
				}
				w.wait(time.Minute)
				w.wantRestarted(before, before, all, nil)
			})
		})
	}
}

// TestRestartLarge restarts runs with large payloads: fewer a page than are asked for, whose
// cursors lead through all of them.
func TestRestartLarge(t *testing.T) {
	sequential(t)
	const n = 6
	for _, test := range []struct {
		name   string
		params func(before []failedRun) string
	}{
		{"what matches", func([]failedRun) string { return "count=50" }},
		{"a list", func(before []failedRun) string { return "dlqIds=" + strings.Join(idsOf(before), ",") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				items := make([]workflow.Item, n)
				for i := range items {
					items[i] = newItem(i)
					items[i].Body = []byte(strings.Repeat("x", 900_000))
				}
				w.fail(items...)
				before := w.inDLQ()
				w.endpoint.repair()
				pages := w.sweep(test.params(before))
				if len(pages) < 2 {
					t.Errorf("%d pages, want more", len(pages))
				}
				var all restarted
				for _, page := range pages {
					all.WorkflowRuns = append(all.WorkflowRuns, page.WorkflowRuns...)
				}
				w.wait(time.Minute)
				w.wantRestarted(before, before, all, nil)
			})
		})
	}
}
