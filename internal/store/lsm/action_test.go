package lsm

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
)

// A bulk action that cannot be read is told of; the others are taken up, and forgotten when
// they are old.
func TestActionsBesideADamagedOne(t *testing.T) {
	s, err := Open("data", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	now := time.UnixMilli(1_700_000_000_000)
	for id, completed := range map[string]time.Time{"damaged": {}, "old": now, "whole": {}} {
		if err := s.PutAction(t.Context(), &posthaste.BulkAction{User: "ann", ID: id, CreatedAt: now, CompletedAt: completed}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Set(actions.key("ann", "damaged"), []byte{0xff}, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if found, err := s.UnfinishedActions(t.Context()); len(found) != 1 || found[0].ID != "whole" || !namesDamaged(err) {
		t.Errorf("UnfinishedActions = %v, %v; want the one that is whole, and an error that names the other", found, err)
	}
	if err := s.DeleteActions(t.Context(), now.Add(time.Second)); !namesDamaged(err) {
		t.Errorf("DeleteActions = %v, want an error that names the damaged one", err)
	}
	if _, err := s.Action(t.Context(), "ann", "old"); err == nil {
		t.Error("the old action is there still")
	}
}

func namesDamaged(err error) bool {
	return err != nil && strings.Contains(err.Error(), `bulk action "damaged" of user "ann"`)
}
