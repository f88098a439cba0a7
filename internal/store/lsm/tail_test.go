package lsm_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
	"posthaste/internal/store/record"
	"posthaste/internal/store/storetest"
)

// followed is a store whose log is followed from the beginning, so that what is asked
// for oldest first is answered from memory. It refuses to answer with anything else
// than what is stored, which it reads the other way round.
type followed struct {
	store.Store

	mu       sync.Mutex
	compared map[posthaste.Position]bool // entries that are what is stored
}

func (f *followed) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	if !query.OldestFirst {
		return f.Store.Events(ctx, user, query, visit)
	}
	end, _, err := f.Watch(ctx, user)
	if err != nil {
		return 0, false, err
	}
	query.Low, query.High = max(query.Low, 1), min(query.High, end)
	page, err := store.ReadEvents(ctx, f.Store, user, query)
	if err != nil {
		return 0, false, err
	}
	if page.More {
		query.High = page.Next - 1
	}
	stored, err := f.stored(ctx, user, query)
	if err != nil {
		return 0, false, err
	}
	if !slices.EqualFunc(page.Entries, stored, f.same) {
		return 0, false, fmt.Errorf("what is in memory differs (-stored +in memory):\n%s", cmp.Diff(stored, page.Entries))
	}
	return page.Visit(visit)
}

// same reports whether two entries have the same position and the same stored form,
// which it looks at once.
func (f *followed) same(a, b store.Entry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.Position != b.Position || f.compared[a.Position] {
		return a.Position == b.Position
	}
	f.compared[a.Position] = true
	return a.MessageID == b.MessageID && bytes.Equal(storedForm(a), storedForm(b))
}

func storedForm(e store.Entry) []byte {
	form := record.AppendMessage(record.AppendEvent(nil, &e.Event), e.Message)
	if e.Response != nil {
		form = record.AppendResponse(form, e.Response)
	}
	return form
}

// stored reads a range from its end to its beginning and returns it oldest first.
func (f *followed) stored(ctx context.Context, user string, query store.EventQuery) (entries []store.Entry, err error) {
	query.OldestFirst = false
	for more := query.Low <= query.High; more; {
		page, err := store.ReadEvents(ctx, f.Store, user, query)
		if err != nil {
			return nil, err
		}
		entries = append(entries, page.Entries...)
		query.High, more = page.Next, page.More
	}
	slices.Reverse(entries)
	return entries, nil
}

// TestConformanceOfFollowed compares what is read of the end of the log with what is stored.
func TestConformanceOfFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("the promises are those of TestConformance; followers beside writers are for TestFollowers of the API")
	}
	storetest.RunBackend(t, func(t *testing.T) store.Store {
		s, err := openRuled("data", lsm.Options{FS: vfs.NewMem(), Memory: storetest.Memory})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Watch(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		return &followed{Store: s, compared: map[posthaste.Position]bool{}}
	})
}

// TestLatestEventsAreInMemory finds events without the index once the log is watched, but no
// earlier ones and none latest first.
func TestLatestEventsAreInMemory(t *testing.T) {
	s := open(t, vfs.NewMem())
	accept := func(number int) {
		submission := store.Submission{Messages: []*posthaste.Message{loggedMessage(number, noon)}}
		if _, err := s.Accept(t.Context(), noon, []store.Submission{submission}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(entries int, inMemory bool, low posthaste.Position, oldestFirst bool) {
		t.Helper()
		before := readSoFar(t, s)
		page, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{
			Filter: posthaste.Filter{States: []posthaste.State{posthaste.StateCreated}},
			Low:    low, High: posthaste.MaxPosition, OldestFirst: oldestFirst, Limit: 10,
		})
		indexed := readSoFar(t, s).IndexBlocks > before.IndexBlocks
		if err != nil || len(page.Entries) != entries || indexed == inMemory {
			t.Errorf("from %d on, oldest first %t: %d entries, with the index %t, %v, want %d, %t",
				low, oldestFirst, len(page.Entries), indexed, err, entries, !inMemory)
		}
	}
	accept(1)
	want(1, false, 1, true) // nobody has watched the log
	end, _, err := s.Watch(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	want(0, true, end+1, true)
	accept(2)
	accept(3)
	want(2, true, end+1, true)
	want(3, false, end, true)
	want(2, false, end+1, false)
}
