package api_test

import (
	"net/http"
	"testing"
	"time"

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
				ID: id, User: "ann", Kind: kind, Total: 3, Processed: 1, Cursor: "next", CreatedAt: time.Now().Add(-time.Minute),
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
