package lsm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"posthaste"
	"posthaste/internal/store"
)

// TestStatsCountWhatQueriesRead asks for a part of a log of five entries in five
// blocks.
func TestStatsCountWhatQueriesRead(t *testing.T) {
	s := open(t, vfs.NewMem())
	for n := range 5 {
		m := message(t, fmt.Sprintf("http://%d.example/x", n), noon)
		if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
	}
	reads := func() store.LogReads {
		t.Helper()
		stats, err := s.Stats(t.Context(), noon)
		if err != nil || stats.WrittenBytes == 0 {
			t.Fatalf("Stats = %+v, %v, want what was written counted", stats, err)
		}
		return stats.LogReads
	}
	tests := []struct {
		name   string
		filter posthaste.Filter
		limit  int
		want   store.LogReads
	}{
		{"all", posthaste.Filter{}, 10, store.LogReads{Entries: 5, Returned: 5}},
		{"a page, and whether more follows", posthaste.Filter{}, 2, store.LogReads{Entries: 3, Returned: 2}},
		{"one by its term, and the end of the list", posthaste.Filter{URLs: []string{"http://2.example/x"}}, 10, store.LogReads{IndexBlocks: 2, Entries: 1, Returned: 1}},
		{"nothing", posthaste.Filter{Queues: []string{"none"}}, 10, store.LogReads{IndexBlocks: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := reads()
			_, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{Filter: test.filter, High: posthaste.MaxPosition, Limit: test.limit})
			if err != nil {
				t.Fatal(err)
			}
			after := reads()
			got := store.LogReads{
				IndexBlocks: after.IndexBlocks - before.IndexBlocks,
				Entries:     after.Entries - before.Entries,
				Returned:    after.Returned - before.Returned,
			}
			if got != test.want {
				t.Errorf("the query read %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestEntriesAtAnyDistance asks for entries that lie one to ten blocks apart, then far from
// each other, and then close again.
func TestEntriesAtAnyDistance(t *testing.T) {
	s := open(t, vfs.NewMem())
	n := 0
	for _, distance := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 4, 1, 20, 20, 20, 20, 20, 20, 1, 1, 4, 5, 3, 30} {
		for between := range distance {
			m := message(t, fmt.Sprintf("http://%d.example/x", n), noon.Add(time.Duration(n)*time.Millisecond))
			if between == 0 {
				m.Labels = []string{"x"}
			}
			if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	everything := store.EventQuery{High: posthaste.MaxPosition, Limit: n}
	labelled := everything
	labelled.Filter.Labels = []string{"x"}
	for _, oldestFirst := range []bool{false, true} {
		everything.OldestFirst, labelled.OldestFirst = oldestFirst, oldestFirst
		all, err := store.ReadEvents(t.Context(), s, "ann", everything)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all.Entries { // each is where a page may begin
			first := all.Entries[i].Position
			if labelled.Low, labelled.High = 0, first; oldestFirst {
				labelled.Low, labelled.High = first, posthaste.MaxPosition
			}
			page, err := store.ReadEvents(t.Context(), s, "ann", labelled)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(slices.Clone(all.Entries[i:]), func(e store.Entry) bool { return len(e.Message.Labels) == 0 })
			if !slices.EqualFunc(page.Entries, want, func(a, b store.Entry) bool { return a.Position == b.Position }) {
				t.Errorf("oldest first %v, from entry %d on: %d entries, or other ones than the %d expected", oldestFirst, i, len(page.Entries), len(want))
			}
		}
	}
}

// TestManyValuesAreOnePage asks for every other one of two thousand messages by a thousand
// values of a filter: each list is read to its end and nothing is read again, in
// either order.
func TestManyValuesAreOnePage(t *testing.T) {
	const values = 1000
	s := open(t, vfs.NewMem())
	var ids []posthaste.MessageID
	var urls []string
	for n := 0; n < 2*values; n += 10 {
		var submissions []store.Submission
		for i := range 10 {
			m := message(t, fmt.Sprintf("http://%d.example/x", n+i), noon.Add(time.Duration(n+i)*time.Millisecond))
			submissions = append(submissions, store.Submission{Messages: []*posthaste.Message{m}})
			if i%2 == 0 {
				ids, urls = append(ids, m.ID), append(urls, m.URL)
			}
		}
		if _, err := s.Accept(t.Context(), noon, submissions); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name        string
		filter      posthaste.Filter
		oldestFirst bool
	}{
		{"message ids", posthaste.Filter{MessageIDs: ids}, false},
		{"message ids, oldest first", posthaste.Filter{MessageIDs: ids}, true},
		{"URLs", posthaste.Filter{URLs: urls}, false},
		{"URLs, oldest first", posthaste.Filter{URLs: urls}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := blocksRead(t, s)
			page, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{
				Filter: test.filter, High: posthaste.MaxPosition, Limit: values, OldestFirst: test.oldestFirst,
			})
			if err != nil || len(page.Entries) != values || page.More {
				t.Errorf("a page of %d entries, more %v, %v, want all %d", len(page.Entries), page.More, err, values)
			}
			if read := blocksRead(t, s) - before; read > 2*values {
				t.Errorf("%d blocks of the index were read for %d entries of %d values", read, values, values)
			}
		})
	}
}

func blocksRead(t *testing.T, s *ruled) int64 {
	t.Helper()
	stats, err := s.Stats(t.Context(), noon)
	if err != nil {
		t.Fatal(err)
	}
	return stats.LogReads.IndexBlocks
}

// TestBareEventsAreReadWithoutBodies lists messages of which a page holds few: without
// bodies, it holds all.
func TestBareEventsAreReadWithoutBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	const messages, size = 10, store.PageBytes / 4
	s := open(t, vfs.NewMem())
	for range messages {
		m := message(t, "http://a.example/x", noon)
		m.Body = make([]byte, size)
		if _, err := s.Accept(t.Context(), noon, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
	}
	for bare, want := range map[bool]int{false: store.PageBytes / size, true: messages} {
		page, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{High: posthaste.MaxPosition, Limit: messages, Bare: bare})
		if err != nil || len(page.Entries) > want || bare && len(page.Entries) < want {
			t.Errorf("bare %t: %d entries on a page, %v; want %d", bare, len(page.Entries), err, want)
		}
	}
}

// TestStatesBesideRareTerms reads events of a rare label by their states, page by page: they are
// the label's events with one of the states.
func TestStatesBesideRareTerms(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	s := filledLog(t, 3000)
	read := func(oldestFirst bool, states ...posthaste.State) (all []store.Entry) {
		t.Helper()
		query := store.EventQuery{High: posthaste.MaxPosition, Limit: 7, OldestFirst: oldestFirst}
		query.Filter = posthaste.Filter{Labels: []string{"rare"}, States: states}
		for {
			page, err := store.ReadEvents(t.Context(), s, "ann", query)
			if err != nil {
				t.Fatal(err)
			}
			if all = append(all, page.Entries...); !page.More {
				return all
			}
			if query.High = page.Next; oldestFirst {
				query.Low, query.High = page.Next, posthaste.MaxPosition
			}
		}
	}
	for _, oldestFirst := range []bool{false, true} {
		all := read(oldestFirst)
		for _, states := range [][]posthaste.State{
			{posthaste.StateCreated}, {posthaste.StateActive}, {posthaste.StateDelivered}, {posthaste.StateError},
			{posthaste.StateFailed}, {posthaste.StateCreated, posthaste.StateDelivered}, {posthaste.StateError, posthaste.StateActive, posthaste.StateFailed},
		} {
			want := slices.DeleteFunc(slices.Clone(all), func(e store.Entry) bool { return !slices.Contains(states, e.State) })
			if diff := cmp.Diff(want, read(oldestFirst, states...), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, oldest first %t (-want +got):\n%s", states, oldestFirst, diff)
			}
		}
	}
}

// TestMessageIsReadFromItsDayOn asks for messages of a log of thirty days: what is read is of
// the days since the oldest of them was made, and all of its events are there.
func TestMessageIsReadFromItsDayOn(t *testing.T) {
	const days = 30
	s := open(t, vfs.NewMem())
	var ids []posthaste.MessageID
	for d := range days {
		now := noon.Add(time.Duration(d) * 24 * time.Hour)
		m := message(t, "http://a.example/x", now)
		ids = append(ids, m.ID)
		m.NotBefore = now.Add(time.Hour)
		if _, err := s.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatal(err)
		}
	}
	last := noon.Add(days * 24 * time.Hour)
	settleAll(t, s, last)
	all, err := store.ReadEvents(t.Context(), s, "ann", store.EventQuery{High: posthaste.MaxPosition, Limit: 1000})
	if err != nil || all.More {
		t.Fatalf("all entries are more: %t, %v", all.More, err)
	}
	future, err := posthaste.NewMessageID(last.Add(500*24*time.Hour), randReader{})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		ids      []posthaste.MessageID
		wantDays int64
	}{
		"the oldest":                {ids[:1], days + 1},
		"the newest":                {ids[days-1:], 3},
		"the newest and the oldest": {[]posthaste.MessageID{ids[days-1], ids[0]}, days + 1},
		"one of no time as well":    {[]posthaste.MessageID{ids[3], {}}, days + 1},
		"none of the future":        {[]posthaste.MessageID{future}, 0},
	}
	for name, test := range tests {
		for _, oldestFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, oldest first %t", name, oldestFirst), func(t *testing.T) {
				query := store.EventQuery{High: posthaste.MaxPosition, Limit: 100, OldestFirst: oldestFirst}
				query.Filter.MessageIDs = test.ids
				before := readSoFar(t, s)
				page, err := store.ReadEvents(t.Context(), s, "ann", query)
				if err != nil || page.More {
					t.Fatalf("a page of %d entries, more %t, %v", len(page.Entries), page.More, err)
				}
				want := slices.DeleteFunc(slices.Clone(all.Entries), func(e store.Entry) bool { return !slices.Contains(test.ids, e.MessageID) })
				if oldestFirst {
					slices.Reverse(want)
				}
				if diff := cmp.Diff(want, page.Entries, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("the events differ (-want +got):\n%s", diff)
				}
				most := (test.wantDays + 1) * int64(len(test.ids)) * 2
				if blocks := readSoFar(t, s).IndexBlocks - before.IndexBlocks; blocks > most {
					t.Errorf("%d blocks of the index were read for %d days, want at most %d", blocks, test.wantDays, most)
				}
			})
		}
	}
}

// readSoFar returns what queries have read.
func readSoFar(t testing.TB, s *ruled) store.LogReads {
	t.Helper()
	stats, err := s.Stats(t.Context(), noon)
	if err != nil {
		t.Fatal(err)
	}
	return stats.LogReads
}
