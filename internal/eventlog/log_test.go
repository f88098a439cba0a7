package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// fakeStore is a store.Log made of a function.
type fakeStore func(user string, query store.EventQuery) (store.EventPage, error)

func (f fakeStore) Events(_ context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	page, err := f(user, query)
	if err != nil {
		return 0, false, err
	}
	return page.Visit(visit)
}

// storeOf answers queries from a list of entries, oldest first.
func storeOf(entries []store.Entry) fakeStore {
	return func(_ string, query store.EventQuery) (page store.EventPage, err error) {
		ordered := slices.Clone(entries)
		if !query.OldestFirst {
			slices.Reverse(ordered)
		}
		for _, e := range ordered {
			if e.Position < query.Low || e.Position > query.High || !query.Filter.MatchesEvent(&e.Event, e.Message) {
				continue
			}
			if len(page.Entries) == query.Limit {
				page.More, page.Next = true, e.Position
				break
			}
			page.Entries = append(page.Entries, e)
		}
		return page, nil
	}
}

// unseen is a visitor for whom there is nothing.
func unseen(entry *store.Entry) error { return fmt.Errorf("entry %d is shown", entry.Position) }

// collect returns a visitor that appends entries to a list.
func collect(all *[]store.Entry) func(*store.Entry) error {
	return func(entry *store.Entry) error {
		*all = append(*all, *entry)
		return nil
	}
}

// thousand is the count of a page of the log.
var thousand = wire.Count{Default: 1000, Most: 1000}

// parse returns the query that parameters are translated to.
func parse(t *testing.T, params url.Values, count wire.Count) store.EventQuery {
	t.Helper()
	query, err := wire.Events(params, count)
	if err != nil {
		t.Fatalf("bad test parameters %v: %v", params, err)
	}
	return query
}

func TestQuerySelectsNothing(t *testing.T) {
	log := eventlog.New(eventlog.Options{Store: fakeStore(func(_ string, query store.EventQuery) (store.EventPage, error) {
		t.Errorf("the store is asked for %+v", query)
		return store.EventPage{}, nil
	})})
	if _, more, err := log.Query(t.Context(), "ann", store.EventQuery{Low: 2, High: 1}, unseen); more || err != nil {
		t.Errorf("Query = %v, %v; want the end", more, err)
	}
}

func TestQueryPassesOn(t *testing.T) {
	broken := errors.New("disk on fire")
	log := eventlog.New(eventlog.Options{Store: fakeStore(func(user string, _ store.EventQuery) (store.EventPage, error) {
		if user != "ann" {
			t.Errorf("user = %q", user)
		}
		return store.EventPage{}, broken
	})})
	if _, _, err := log.Query(t.Context(), "ann", store.EventQuery{High: 1}, unseen); !errors.Is(err, broken) {
		t.Errorf("Query = %v, want the store's error", err)
	}
}

// TestPaging reads a log to its end, page by page, and expects every entry once
// (contract 4.1, rules 2 and 3).
func TestPaging(t *testing.T) {
	entries := someEntries(23)
	for _, order := range []string{"latestFirst", "earliestFirst"} {
		for _, count := range []string{"1", "4", "23", "1000"} {
			t.Run(order+" by "+count, func(t *testing.T) {
				log := eventlog.New(eventlog.Options{Store: storeOf(entries)})
				want := slices.Clone(entries)
				if order == "latestFirst" {
					slices.Reverse(want)
				}
				got := readAll(t, log, url.Values{"order": {order}, "count": {count}})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("entries differ (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestPagingBeginsWithATime is how clients begin that know no cursor.
func TestPagingBeginsWithATime(t *testing.T) {
	entries := someEntries(10)
	log := eventlog.New(eventlog.Options{Store: storeOf(entries)})
	got := readAll(t, log, url.Values{"count": {"2"}, "cursor": {"1700000000004"}})
	want := slices.Clone(entries[:5])
	slices.Reverse(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries differ (-want +got):\n%s", diff)
	}
}

func someEntries(n int) []store.Entry {
	var entries []store.Entry
	for i := range n {
		at := posthaste.FirstPosition(time.UnixMilli(1_700_000_000_000+int64(i))) + posthaste.Position(i%3)
		entries = append(entries, store.Entry{
			Event:   posthaste.Event{Position: at, State: posthaste.StateCreated},
			Message: &posthaste.Message{},
		})
	}
	return entries
}

// readAll follows the cursors from params to the end.
func readAll(t *testing.T, log *eventlog.Log, params url.Values) []store.Entry {
	t.Helper()
	var all []store.Entry
	for range 100 {
		next, more, err := log.Query(t.Context(), "ann", parse(t, params, thousand), collect(&all))
		if err != nil {
			t.Fatalf("Query(%v): %v", params, err)
		}
		if !more {
			return all
		}
		params.Set("cursor", wire.Cursor(next))
	}
	t.Fatal("the log has no end")
	return nil
}
