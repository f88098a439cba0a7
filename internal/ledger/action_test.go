package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// slowToRead finds what is due, and returns it as it is some time later.
type slowToRead struct {
	store.Backend
	meanwhile func()
}

func (s slowToRead) Due(ctx context.Context, kind store.ItemKind, now time.Time, limit int, except ...string) ([]store.Record, time.Time, error) {
	found, next, err := s.Backend.Due(ctx, kind, now, limit, except...)
	s.meanwhile()
	for i := range found {
		viewErr := s.View(ctx, store.Scope{User: found[i].User}, func(r store.Reader) (err error) {
			found[i].Value, err = r.Get(kind, found[i].Key)
			return err
		})
		if viewErr != nil {
			return nil, next, viewErr
		}
	}
	return found, next, err
}

// An action that ends while old ones are deleted can be read afterwards.
func TestDeleteActionsWhileOneEnds(t *testing.T) {
	backend, err := lsm.Open("data", lsm.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowToRead{Backend: backend}
	l := ledger.New(slow)
	t.Cleanup(func() { _ = l.Close() })
	if err := l.PutAction(t.Context(), &posthaste.BulkAction{User: ann, ID: "ends", CreatedAt: noon}); err != nil {
		t.Fatal(err)
	}
	slow.meanwhile = func() {
		err := l.UpdateAction(t.Context(), ann, "ends", func(a *posthaste.BulkAction) { a.CompletedAt = noon.Add(time.Hour) })
		if err != nil {
			t.Error(err)
		}
	}
	if err := l.DeleteActions(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Action(t.Context(), ann, "ends"); err != nil {
		t.Errorf("Action = %v; want the action that ended meanwhile", err)
	}
}
