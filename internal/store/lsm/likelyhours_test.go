package lsm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store"
)

// TestFrequentFiltersThatShareNothing asks for two labels' states that never come together, but in the
// oldest hour: the other hours are passed over.
func TestFrequentFiltersThatShareNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	const hours, commits = 40, 40 // in each
	s := openLog(t)
	s.countsFrom = 10
	begin := time.Date(2026, 5, 3, 0, 0, 0, 0, time.UTC)
	for hour := range hours {
		for n := range commits {
			now := begin.Add(time.Duration(hour)*time.Hour + time.Duration(n)*time.Second)
			failed, delivered := "bad", "good"
			if hour == 0 && n == 0 {
				failed, delivered = delivered, failed
			}
			s.add(now, posthaste.StateError, 500, "http://a.example/x", failed)
			s.add(now, posthaste.StateDelivered, 200, "http://b.example/y", delivered)
		}
	}
	tests := map[string]posthaste.Filter{
		"label and state":  {Labels: []string{"good"}, States: []posthaste.State{posthaste.StateError}},
		"label and status": {Labels: []string{"good"}, Statuses: []int{500}},
		"label and host":   {Labels: []string{"good"}, Hosts: []string{"a.example"}},
		"label and URL":    {Labels: []string{"bad"}, URLs: []string{"http://b.example/y"}},
		"all of them":      {Labels: []string{"good"}, Paths: []string{"/x"}, States: []posthaste.State{posthaste.StateError}, Statuses: []int{500}},
	}
	for name, filter := range tests {
		for _, oldestFirst := range []bool{false, true} {
			query := store.EventQuery{Filter: filter, High: posthaste.MaxPosition, Limit: 10, OldestFirst: oldestFirst}
			before := s.reads.sum().IndexBlocks
			page, err := store.ReadEvents(t.Context(), s.Store, "ann", query)
			if err != nil || len(page.Entries) != 1 || page.More {
				t.Errorf("%s, oldest first %v: %d entries, more: %v, %v; want one", name, oldestFirst, len(page.Entries), page.More, err)
			}
			if read, most := s.reads.sum().IndexBlocks-before, int64(100+hours+4*commits); read > most {
				t.Errorf("%s, oldest first %v: %d blocks of the index, want at most %d", name, oldestFirst, read, most)
			}
		}
	}
}

// TestPagesByCounts compares pages that look at counts at once with those that never do.
func TestPagesByCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := openLog(t)
		defer func() { _ = s.Close() }()
		pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "one") }
		now := time.Date(2026, 5, 3, 20, 0, 0, 0, time.UTC)
		hosts, paths, labels := []string{"a.example", "A.example:80", "b.example"}, []string{"", "/x", "/" + strings.Repeat("long", 40)}, []string{"one", "two", strings.Repeat("x", 200), strings.Repeat("y", 256), strings.Repeat("z", 100)}
		states := []posthaste.State{posthaste.StateCreated, posthaste.StateError, posthaste.StateDelivered, posthaste.StateRunStarted}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "minutes")) * time.Minute)
			chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(labels), 0, 5, rapid.ID).Draw(t, "labels")
			state := rapid.SampledFrom(states).Draw(t, "state")
			s.add(now, state, rapid.SampledFrom([]int{0, 200, 404, 500}).Draw(t, "status"), "http://"+pick(hosts...)+pick(paths...), chosen...)
		}
		var f posthaste.Filter
		some := func(of []string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID).Draw(t, "some")
		}
		f.Hosts, f.Paths, f.Labels = some(hosts), some(paths), some(labels)
		f.States = rapid.SliceOfNDistinct(rapid.SampledFrom(states), 0, 2, rapid.ID).Draw(t, "states")
		f.Statuses = rapid.SliceOfNDistinct(rapid.SampledFrom([]int{0, 200, 404, 500}), 0, 2, rapid.ID).Draw(t, "statuses")
		query := store.EventQuery{Filter: f, High: posthaste.MaxPosition, Limit: 100, OldestFirst: rapid.Bool().Draw(t, "oldest first")}
		read := func(from int) []store.Entry {
			s.countsFrom = from
			page, err := store.ReadEvents(context.Background(), s.Store, "ann", query)
			if err != nil {
				t.Fatal(err)
			}
			return page.Entries
		}
		same := func(a, b store.Entry) bool { return a.Position == b.Position }
		if by, plain := read(0), read(1<<30); !slices.EqualFunc(by, plain, same) {
			t.Fatalf("%d entries by counts, %d without: %+v", len(by), len(plain), f)
		}
	})
}

// eventLog is a store whose log is written by hand.
type eventLog struct {
	*Store
	t failer
	n int
}

// failer is a test, or an attempt of one.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func openLog(t failer) *eventLog {
	s, err := Open("data", Options{FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return &eventLog{s, t, 0}
}

// add adds a message and an event of it, in a commit of their own.
func (l *eventLog) add(now time.Time, state posthaste.State, status int, url string, labels ...string) {
	l.t.Helper()
	l.n++
	id, err := posthaste.NewMessageID(now, strings.NewReader(fmt.Sprintf("%08d%08d", l.n, l.n)))
	m := &posthaste.Message{ID: id, User: "ann", URL: url, CreatedAt: now, NotBefore: now}
	m.Labels = labels
	err = errors.Join(err, l.Update(context.Background(), now, store.Scope{User: "ann"}, func(tx store.Tx) error {
		event := posthaste.Event{State: state}
		if state.OfAttempt() {
			event.Attempt.Status = status
		}
		tx.Log(m, event)
		tx.Accept(m, store.Place{State: posthaste.StateDelivered})
		return nil
	}))
	if err != nil {
		l.t.Fatal(err)
	}
}
