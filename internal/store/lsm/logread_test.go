package lsm_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

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
		filter store.EventFilter
		limit  int
		want   store.LogReads
	}{
		{"all", store.EventFilter{}, 10, store.LogReads{Entries: 5, Returned: 5}},
		{"a page, and whether more follows", store.EventFilter{}, 2, store.LogReads{Entries: 3, Returned: 2}},
		{"one by its term, and the end of the list", store.EventFilter{URLs: []string{"http://2.example/x"}}, 10, store.LogReads{IndexBlocks: 2, Entries: 1, Returned: 1}},
		{"nothing", store.EventFilter{Queues: []string{"none"}}, 10, store.LogReads{IndexBlocks: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := reads()
			_, err := s.Events(t.Context(), "ann", store.EventQuery{Filter: test.filter, High: posthaste.MaxPosition, Limit: test.limit})
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
