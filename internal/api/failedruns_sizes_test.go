package api_test

import (
	"fmt"
	"testing"
	"time"
)

// TestRestartSizes restarts all that failed, page by page (contract 4.2, rules 1, 2 and 3;
// workflows 7.1).
func TestRestartSizes(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 500} {
		t.Run(fmt.Sprint(n, " runs"), func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				w.failMany(n)
				before := w.buried()
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
