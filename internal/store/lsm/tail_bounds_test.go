package lsm

import (
	"net/http"
	"strings"
	"testing"

	"posthaste"
	"posthaste/internal/store"
)

// entriesAt makes entries at the positions from one to another, with bodies of a size.
func entriesAt(first, last posthaste.Position, size int) []store.Entry {
	return entriesLike(store.NewEntry(posthaste.Event{}, &posthaste.Message{Body: make([]byte, size)}), first, last)
}

// entriesLike makes entries like one at the positions from one to another.
func entriesLike(e store.Entry, first, last posthaste.Position) []store.Entry {
	var entries []store.Entry
	for p := first; p <= last; p++ {
		e.Position = p
		entries = append(entries, e)
	}
	return entries
}

// wantFrom requires that the tail has exactly the positions from low to last.
func wantFrom(t *testing.T, tail *tail, low, last posthaste.Position) {
	t.Helper()
	entries, ok := tail.from(low)
	if !ok {
		t.Fatalf("from(%d) is not in the tail, its floor is %d", low, tail.floor)
	}
	for i, e := range entries {
		if e.Position != low+posthaste.Position(i) {
			t.Fatalf("from(%d) has %d in place %d", low, e.Position, i)
		}
	}
	if got := low + posthaste.Position(len(entries)) - 1; got != last {
		t.Errorf("from(%d) ends at %d, want %d", low, got, last)
	}
}

func wantNotFrom(t *testing.T, tail *tail, low posthaste.Position) {
	t.Helper()
	if entries, ok := tail.from(low); ok {
		t.Errorf("from(%d) has %d entries, want that it lacks some", low, len(entries))
	}
}

func TestTailHasWhatCommitsBrought(t *testing.T) {
	tail := &tail{floor: 10}
	tail.follow()
	tail.add(entriesAt(11, 15, 1), true, 15)
	before, _ := tail.from(13)
	tail.add(nil, true, 17) // positions without events
	tail.add(entriesAt(18, 20, 1), true, 20)
	wantNotFrom(t, tail, 10)
	wantFrom(t, tail, 18, 20)
	if entries, _ := tail.from(11); len(entries) != 8 {
		t.Errorf("%v, want 8 entries", entries)
	}
	if len(before) != 3 || before[2].Position != 15 {
		t.Errorf("what was read before has changed: %v", before)
	}
}

func TestTailLacksWhatWasNotGathered(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*tail)
		floor posthaste.Position
	}{
		{"a commit that began before it was wanted", func(tail *tail) { tail.add(nil, false, 30) }, 30},
		{"what was there when days were dropped", func(tail *tail) { tail.forget() }, 20},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tail := &tail{}
			tail.follow()
			tail.add(entriesAt(1, 20, 1), true, 20)
			test.spoil(tail)
			tail.add(entriesAt(test.floor+1, 40, 1), true, 40)
			wantNotFrom(t, tail, test.floor)
			wantFrom(t, tail, test.floor+1, 40)
		})
	}
}

func TestTailIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	const big = tailBytes / 100
	empty := &posthaste.Message{}
	header := http.Header{"A": {strings.Repeat("a", big)}}
	with := func(s posthaste.Settings) store.Entry {
		return store.NewEntry(posthaste.Event{}, &posthaste.Message{Settings: s})
	}
	tests := []struct {
		name  string
		entry store.Entry
		most  int // entries that may be there at any time
	}{
		{"by entries", store.Entry{Message: empty}, tailEntries},
		{"by bodies", store.NewEntry(posthaste.Event{}, &posthaste.Message{Body: make([]byte, big)}), tailBytes / big},
		{"by responses", store.Entry{Message: empty, Event: posthaste.Event{Response: &posthaste.Response{Body: make([]byte, big)}}}, tailBytes / big},
		{"by headers", with(posthaste.Settings{Header: header}), tailBytes / big},
		{"by headers of callbacks", with(posthaste.Settings{Callback: &posthaste.Callback{Settings: posthaste.Settings{Header: header}}}), tailBytes / big},
		{"by headers of failure callbacks", with(posthaste.Settings{FailureCallback: &posthaste.Callback{Given: header}}), tailBytes / big},
		{"by headers of responses", store.Entry{Message: empty, Event: posthaste.Event{Response: &posthaste.Response{Header: header}}}, tailBytes / big},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tail := &tail{}
			var last posthaste.Position
			for range 5 * tailEntries / 100 {
				tail.follow()
				tail.add(entriesLike(test.entry, last+1, last+100), true, last+100)
				last += 100
				if n := len(tail.entries); n > test.most {
					t.Fatalf("%d entries, want at most %d", n, test.most)
				}
			}
			wantNotFrom(t, tail, 1)
			wantFrom(t, tail, tail.floor+1, last)
			wantFrom(t, tail, last, last)
		})
	}
}

// TestTailIsGivenUp has commits go on after the last reader has gone.
func TestTailIsGivenUp(t *testing.T) {
	tail := &tail{}
	tail.follow()
	var last posthaste.Position
	for {
		if !tail.begin() {
			break
		}
		if last > 2*tailEntries {
			t.Fatalf("%d events were gathered for nobody", last)
		}
		tail.add(entriesAt(last+1, last+100, 1), true, last+100)
		last += 100
	}
	if n := len(tail.entries); n > 0 {
		t.Errorf("%d entries are left", n)
	}
	tail.add(nil, false, last+50)
	wantNotFrom(t, tail, last+50)
	wantFrom(t, tail, last+51, last+50)
}
