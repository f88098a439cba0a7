package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

const ann = "ann"

var noon = time.UnixMilli(1_700_000_000_000)

// open opens an empty store in memory.
func open(t *testing.T) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// damage writes what cannot be read in the place of a record, which is found as before.
func damage(t *testing.T, l *ledger.Ledger, kind store.ItemKind, name string, found store.Found) {
	t.Helper()
	err := l.Update(t.Context(), noon, store.Scope{User: ann}, func(tx store.Tx) error {
		tx.Put(kind, []byte(name), []byte{0xff}, found, found)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Neither a list nor a read passes over a record that cannot be read, and both say which it is.
func TestDamagedRecordsAreNamed(t *testing.T) {
	const name = "damaged"
	l := open(t)
	tests := map[string]struct {
		kind      store.ItemKind
		list, get func() (any, error)
	}{
		"flow-control key": {
			store.ItemFlowKey,
			func() (any, error) { return l.FlowKeys(t.Context(), noon, ann, "", "") },
			func() (any, error) { return l.FlowKey(t.Context(), noon, ann, name) },
		},
		"URL group": {
			store.ItemURLGroup,
			func() (any, error) { return l.URLGroups(t.Context(), ann, "") },
			func() (any, error) { return l.URLGroup(t.Context(), ann, name) },
		},
		"schedule": {
			store.ItemSchedule,
			func() (any, error) { return l.Schedules(t.Context(), ann, "") },
			func() (any, error) { return l.Schedule(t.Context(), ann, name) },
		},
		"bulk action": {
			store.ItemAction,
			func() (any, error) { return l.Actions(t.Context(), ann) },
			func() (any, error) { return l.Action(t.Context(), ann, name) },
		},
	}
	for thing, test := range tests {
		t.Run(thing, func(t *testing.T) {
			damage(t, l, test.kind, name, store.Found{})
			want := fmt.Sprintf("%s %q of user %q", thing, name, ann)
			for _, read := range []func() (any, error){test.list, test.get} {
				if found, err := read(); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, %v; want an error about %s", found, err, want)
				}
			}
		})
	}
}

// Schedules that cannot be read are named, and the others are due, however many of those there are
// before them.
func TestDueSchedulesBesideDamagedOnes(t *testing.T) {
	l := open(t)
	damaged, later := []string{"damaged 1", "damaged 2", "damaged 3"}, noon.Add(time.Minute)
	update := func(id string, next time.Time) {
		err := l.UpdateSchedule(t.Context(), noon, ann, id, func(s *posthaste.Schedule) error {
			s.NextAt = next
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range damaged {
		update(id, noon)
		damage(t, l, store.ItemSchedule, id, store.Found{DueAt: noon})
	}
	update("later", later)
	update("whole", noon)
	due, next, err := l.DueSchedules(t.Context(), noon, 1)
	if len(due) != 1 || due[0].ID != "whole" || !next.Equal(later) {
		t.Errorf("due %v, next %v; want the schedule that is whole, then the later one", due, next)
	}
	for _, id := range damaged {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", id)) {
			t.Errorf("DueSchedules = %v, want an error that names %q", err, id)
		}
	}
}

// A bulk action that cannot be read is named; the others are taken up, and forgotten when they are
// old.
func TestActionsBesideADamagedOne(t *testing.T) {
	l := open(t)
	for id, completed := range map[string]time.Time{"damaged": {}, "old": noon, "whole": {}} {
		if err := l.PutAction(t.Context(), &posthaste.BulkAction{User: ann, ID: id, CreatedAt: noon, CompletedAt: completed}); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, l, store.ItemAction, "damaged", store.Found{DueAt: time.UnixMilli(0)})
	namesDamaged := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), `bulk action "damaged" of user "ann"`)
	}
	if found, err := l.UnfinishedActions(t.Context()); len(found) != 1 || found[0].ID != "whole" || !namesDamaged(err) {
		t.Errorf("UnfinishedActions = %v, %v; want the one that is whole, and an error that names the other", found, err)
	}
	if err := l.DeleteActions(t.Context(), noon.Add(time.Second)); !namesDamaged(err) {
		t.Errorf("DeleteActions = %v, want an error that names the damaged one", err)
	}
	if _, err := l.Action(t.Context(), ann, "old"); err == nil {
		t.Error("the old action is there still")
	}
}
