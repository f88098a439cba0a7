package storetest

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"os"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

// Opened is an empty store, and how to close it and open it again.
type Opened struct {
	Store  *ledger.Ledger
	Reopen func() *ledger.Ledger
}

// RunCopy tests that what one backend keeps can be moved into another one, and from there
// on. It lets each test of Run leave something behind in the first, copies that into the
// second, from there into the next, and so on, and wants all to keep the same, and what
// was copied to pass the audit. It takes one test in some, which their names decide, and all of
// them if the environment variable STORETEST_COPIES is all.
func RunCopy(t *testing.T, first func(t *testing.T) Opened, others ...func(t *testing.T) Opened) {
	every := uint32(16)
	if os.Getenv("STORETEST_COPIES") == "all" {
		every = 1
	}
	for _, group := range promises {
		if group.breaks {
			continue
		}
		for _, p := range group.trials {
			name := group.name + "/" + p.name
			if crc32.ChecksumIEEE([]byte(name))%every == 0 {
				t.Run(name, func(t *testing.T) { runCopy(t, p, first(t), others...) })
			}
		}
	}
}

func runCopy(t *testing.T, p promise, first Opened, others ...func(t *testing.T) Opened) {
	tr := newTrial(t, first.Store)
	p.check(tr)
	if t.Failed() {
		return
	}
	items := exported(t, first.Store, tr.now)
	for _, next := range others {
		items = tr.copied(items, next(t))
	}
}

// copied moves items into a store, wants it to keep the same, and returns what it keeps.
func (tr *trial) copied(items []store.Item, into Opened) []store.Item {
	tr.Helper()
	const atOnce = 20 // few, so that what belongs together is parted
	for chunk := range slices.Chunk(items, atOnce) {
		tr.ok(into.Store.Import(tr.Context(), chunk))
	}
	got := exported(tr, into.Store, tr.now)
	if from, there := sorted(items), sorted(got); !slices.EqualFunc(from, there, same) {
		tr.Fatalf("what was copied (-from +into):\n%s", gocmp.Diff(from, there))
	}
	s := into.Reopen()
	if !tr.trimmed {
		for user, ids := range tr.makes.ids {
			Audit(tr, s, user, ids)
		}
	}
	return got
}

// exported returns everything that a store keeps.
func exported(t testing.TB, s *ledger.Ledger, now time.Time) (items []store.Item) {
	t.Helper()
	kind := store.ItemSecret
	err := s.Export(t.Context(), now, func(i store.Item) error {
		if i.Kind < kind {
			t.Errorf("%s are exported after %s", i.Kind, kind)
		}
		kind = i.Kind
		i.Key, i.Value = slices.Clone(i.Key), append([]byte{}, i.Value...)
		items = append(items, i)
		return nil
	})
	if err != nil {
		t.Fatalf("Export: %v", err)
	}
	return items
}

func same(a, b store.Item) bool {
	return a.Kind == b.Kind && a.User == b.User && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
}

// sorted returns items by kind, user and key.
func sorted(items []store.Item) []store.Item {
	return slices.SortedFunc(slices.Values(items), func(a, b store.Item) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.User, b.User), slices.Compare(a.Key, b.Key))
	})
}
