package lsm

import (
	"strings"
	"testing"
	"time"

	"posthaste"
)

// A bulk action that cannot be read is told of; the others are taken up, and forgotten when
// they are old.
func TestActionsBesideADamagedOne(t *testing.T) {
	s, now := openInMemory(t), time.UnixMilli(1_700_000_000_000)
	for id, completed := range map[string]time.Time{"damaged": {}, "old": now, "whole": {}} {
		if err := s.PutAction(t.Context(), &posthaste.BulkAction{User: "ann", ID: id, CreatedAt: now, CompletedAt: completed}); err != nil {
			t.Fatal(err)
		}
	}
	s.damage(t, actions.key("ann", "damaged"))
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
