package lsm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// openInMemory opens a store that is closed when the test ends.
func openInMemory(t *testing.T) *Store {
	s, err := Open("data", Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// damage writes under a key what cannot be read.
func (s *Store) damage(t *testing.T, key []byte) {
	t.Helper()
	if err := s.db.Set(key, []byte{0xff}, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedDocumentsAreNamed checks that neither a list nor a read passes over a document
// that cannot be read, and that both say which it is.
func TestDamagedDocumentsAreNamed(t *testing.T) {
	const user, name = "ann", "damaged"
	s, now := openInMemory(t), time.UnixMilli(1_700_000_000_000)
	tests := map[string]struct {
		key       []byte
		list, get func() (any, error)
	}{
		"queue": {
			queues.key(user, name),
			func() (any, error) { return s.Queues(t.Context(), user, "") },
			func() (any, error) { return s.Queue(t.Context(), user, name) },
		},
		"flow-control key": {
			flowKeys.key(user, name),
			func() (any, error) { return s.FlowKeys(t.Context(), now, user, "", "") },
			func() (any, error) { return s.FlowKey(t.Context(), now, user, name) },
		},
		"URL group": {
			groups.key(user, name),
			func() (any, error) { return s.URLGroups(t.Context(), user, "") },
			func() (any, error) { return s.URLGroup(t.Context(), user, name) },
		},
		"schedule": {
			schedules.key(user, name),
			func() (any, error) { return s.Schedules(t.Context(), user, "") },
			func() (any, error) { return s.Schedule(t.Context(), user, name) },
		},
		"bulk action": {
			actions.key(user, name),
			func() (any, error) { return s.Actions(t.Context(), user) },
			func() (any, error) { return s.Action(t.Context(), user, name) },
		},
	}
	for thing, test := range tests {
		t.Run(thing, func(t *testing.T) {
			s.damage(t, test.key)
			want := fmt.Sprintf("%s %q of user %q", thing, name, user)
			for _, read := range []func() (any, error){test.list, test.get} {
				if found, err := read(); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, %v; want an error about %s", found, err, want)
				}
			}
		})
	}
}
