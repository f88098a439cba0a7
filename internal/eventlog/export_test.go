package eventlog_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// Watch makes a fakeStore an eventlog.Source whose log does not grow.
func (fakeStore) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	return posthaste.MaxPosition, make(chan struct{}), nil
}

// everything is all of a log, oldest first.
var everything = store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: eventlog.Unbounded}

// exportAll reads an export to its end.
func exportAll(t *testing.T, log *eventlog.Log, params url.Values) []store.Entry {
	t.Helper()
	export, err := log.Export(t.Context(), "ann", parse(t, params, wire.Count{Default: eventlog.Unbounded}))
	if err != nil {
		t.Fatalf("Export(%v): %v", params, err)
	}
	var all []store.Entry
	for {
		before := len(all)
		err := export.Next(t.Context(), collect(&all))
		if errors.Is(err, io.EOF) && len(all) == before {
			return all
		}
		if err != nil || len(all) == before {
			t.Fatalf("Next = %d entries, %v, want some or the end", len(all)-before, err)
		}
	}
}

// TestExport compares exports with what pages show.
func TestExport(t *testing.T) {
	whole := storeOf(someEntries(1200))
	paged := eventlog.New(eventlog.Options{Store: whole})
	exported := eventlog.New(eventlog.Options{Store: shortPages(whole)})
	tests := []struct{ name, params string }{
		{"everything", ""},
		{"earliest first", "order=earliestFirst"},
		{"a range", "fromDate=1700000000100&toDate=1700000000900"},
		{"a cursor", "cursor=1700000000600"},
		{"a cursor, earliest first", "order=earliestFirst&cursor=1700000000600"},
		{"nothing", "fromDate=2&toDate=1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			params, err := url.ParseQuery(test.params)
			if err != nil {
				t.Fatal(err)
			}
			got := exportAll(t, exported, params)
			if diff := cmp.Diff(readAll(t, paged, params), got); diff != "" {
				t.Errorf("an export differs from the pages (-pages +export):\n%s", diff)
			}
		})
	}
}

// shortPages lets every other page be empty and the others hold at most 7
// entries, as a store may whose work is bounded.
func shortPages(s fakeStore) fakeStore {
	calls := 0
	return func(user string, query store.EventQuery) (store.EventPage, error) {
		if calls++; calls%2 == 0 {
			next := query.High
			if query.OldestFirst {
				next = query.Low
			}
			return store.EventPage{More: true, Next: next}, nil
		}
		query.Limit = min(query.Limit, 7)
		return s(user, query)
	}
}

func TestExportCount(t *testing.T) {
	log := eventlog.New(eventlog.Options{Store: storeOf(someEntries(3000))})
	latestFirst := someEntries(3000)
	slices.Reverse(latestFirst)
	for count, want := range map[string]int{"1": 1, "250": 250, "251": 251, "2500": 2500, "9999": 3000, "": 3000} {
		t.Run("count "+count, func(t *testing.T) {
			got := exportAll(t, log, url.Values{"count": {count}})
			if diff := cmp.Diff(positions(latestFirst[:want]), positions(got)); diff != "" {
				t.Errorf("positions differ (-want +got):\n%s", diff)
			}
		})
	}
}

func positions(entries []store.Entry) []posthaste.Position {
	positions := make([]posthaste.Position, len(entries))
	for i, e := range entries {
		positions[i] = e.Position
	}
	return positions
}

// TestExportHoldsLittle has entries of any number read in pieces of a few.
func TestExportHoldsLittle(t *testing.T) {
	most := 0
	s := storeOf(someEntries(3000))
	log := eventlog.New(eventlog.Options{Store: fakeStore(func(user string, query store.EventQuery) (store.EventPage, error) {
		most = max(most, query.Limit)
		return s(user, query)
	})})
	exportAll(t, log, nil)
	if most == 0 || most > 1000 {
		t.Errorf("%d entries are asked for at once", most)
	}
}

// TestExportEnds has a log that grows as fast as it is read.
func TestExportEnds(t *testing.T) {
	g := newGrowing()
	g.add(someEntries(300)...)
	log := eventlog.New(eventlog.Options{Store: g})
	export, err := log.Export(t.Context(), "ann", everything)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for {
		err := export.Next(t.Context(), func(*store.Entry) error { read++; return nil })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		g.add(someEntries(300 + 2*read)[300+read:]...)
	}
	if read != 300 {
		t.Errorf("%d entries were read, there were 300 when it began", read)
	}
}

// barren is a Source of pages without entries and without an end, each of which
// takes a second.
type barren struct{ store.Log }

func (barren) Events(_ context.Context, _ string, query store.EventQuery, _ func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	time.Sleep(time.Second)
	return query.Low + 1, true, nil
}

func (barren) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	return posthaste.MaxPosition - 1, make(chan struct{}), nil
}

// TestExportStops stops looking for what nothing matches when nobody wants it.
func TestExportStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		export, err := eventlog.New(eventlog.Options{Store: barren{}}).Export(t.Context(), "ann", everything)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := export.Next(ctx, unseen); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next = %v, want the end of the context", err)
		}
	})
}

func TestExportFails(t *testing.T) {
	broken := errors.New("disk on fire")
	log := eventlog.New(eventlog.Options{Store: fakeStore(func(string, store.EventQuery) (store.EventPage, error) {
		return store.EventPage{}, broken
	})})
	export, err := log.Export(t.Context(), "ann", everything)
	if err != nil {
		t.Fatal(err)
	}
	if err := export.Next(t.Context(), unseen); !errors.Is(err, broken) {
		t.Errorf("Next = %v, want the store's error", err)
	}
}
