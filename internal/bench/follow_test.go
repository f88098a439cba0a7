package bench

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestFollowingCounts counts entries, and nothing else that a stream has.
func TestFollowingCounts(t *testing.T) {
	long := strings.Repeat("data: ", 10_000) // more than fits a reader's buffer
	tests := []struct {
		name, stream string
		want         int64
	}{
		{"nothing", "", 0},
		{"a sign of life", ": following\nid: p1\n\n", 0},
		{"entries", "id: p1\ndata: {}\n\nid: p2\ndata: {}\n\n", 2},
		{"a long entry", "id: p1\ndata: " + long + "\n\nid: p2\ndata: {}\n\n", 2},
		{"something long that is none", ": " + long + "\n\n", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := &following{arrival: make(chan struct{}, 1)}
			f.count(strings.NewReader(test.stream))
			if got := f.entries.Load(); got != test.want {
				t.Errorf("counted %d entries, want %d", got, test.want)
			}
		})
	}
}

// TestFollowingAnswersForEachEntry gives up when entries are missing.
func TestFollowingAnswersForEachEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &following{arrival: make(chan struct{}, 1)}
		f.entries.Store(2)
		if err := f.drain(t.Context(), 2); err != nil {
			t.Errorf("drain with all entries = %v", err)
		}
		if err := f.drain(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "2 entries of 3") {
			t.Errorf("drain with an entry missing = %v", err)
		}
	})
}

func TestAddressWithLabel(t *testing.T) {
	if head := (address{label: labelOf(7)}).head(); !strings.Contains(head, "\r\nUpstash-Label: label-7\r\n") {
		t.Errorf("a labelled message begins with %q", head)
	}
}
