package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
)

// An action that goes on is ended where it is listed, and by nobody else's token.
func TestBulkActionIsEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		time.Sleep(time.Second) // the engine has looked for actions that nobody does
		for path, kind := range map[string]posthaste.ActionKind{
			"/v2/bulkActions/":           posthaste.ActionRetry,
			"/v2/workflows/bulkActions/": posthaste.ActionRestart,
		} {
			const id = "act_1"
			goesOn := posthaste.BulkAction{
				ID: id, User: "ann", Kind: kind, Total: 3, Processed: 1, Cursor: posthaste.ActionCursor{Live: "next"}, CreatedAt: time.Now().Add(-time.Minute),
			}
			if err := w.store.PutAction(w.Context(), &goesOn); err != nil {
				w.Fatal(err)
			}
			if status, body := w.ask(call{method: "DELETE", path: path + id}, "other"); status != http.StatusNotFound {
				w.Errorf("a stranger ends %s: %d %s", path, status, body)
			}
			var before, ended, after struct {
				State                  string
				Processed, CompletedAt int64
			}
			w.do("GET", path+id, "", &before)
			w.do("DELETE", path+id, "", &ended)
			time.Sleep(time.Minute) // it has looked again
			w.do("DELETE", path+id, "", &after)
			if before.State != "IN_PROGRESS" || ended.State != "CANCELED" || ended.Processed != 1 || ended.CompletedAt == 0 {
				w.Errorf("DELETE %s turned %+v into %+v", path, before, ended)
			}
			if after != ended {
				w.Errorf("DELETE %s again turned %+v into %+v", path, ended, after)
			}
		}
	})
}

// The filter of an action is shown in the words of the request, whatever was made of them.
func TestBulkActionShowsWhatWasAsked(t *testing.T) {
	const asked = "?async=true&label=a,b&url=https://b%C3%BCcher.example/&toDate=0&flowControlKey%5B%5D=c,d&source="
	for _, test := range []struct{ method, path, list, source, more, want string }{
		{"DELETE", "/v2/messages", "/v2/bulkActions/", "", "&callerIP=10.0.0.1&host=x&order=y", `{"callerIP":["10.0.0.1"],"host":["x"],`},
		{"DELETE", "/v2/dlq", "/v2/bulkActions/", "message", "&urlGroup=g&order=latestFirst", `{"source":["message"],"urlGroup":["g"],`},
		{"POST", "/v2/workflows/dlq/restart", "/v2/workflows/bulkActions/", "workflow", "&workflowCreatedAt=1", `{"source":["workflow"],"workflowCreatedAt":["1"],`},
	} {
		t.Run(test.path, func(t *testing.T) {
			inWorld(t, func(w *world) {
				query := asked + test.source + test.more
				if test.source == "" {
					query = strings.TrimSuffix(asked, "&source=") + test.more
				}
				var begun struct{ ActionID string }
				w.do(test.method, test.path+query, "", &begun)
				var shown struct{ Filter map[string][]string }
				w.do("GET", test.list+begun.ActionID, "", &shown)
				var want map[string][]string
				common := `"flowControlKey[]":["c,d"],"label":["a,b"],"toDate":["0"],"url":["https://bücher.example/"]}`
				if err := json.Unmarshal([]byte(test.want+common), &want); err != nil {
					w.Fatal(err)
				}
				if diff := cmp.Diff(want, shown.Filter); diff != "" {
					w.Errorf("filter differs (-want +got):\n%s", diff)
				}
			})
		})
	}
}
