package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"posthaste"
)

// What commits add to the index one by one is what one commit of all their events would add.
func TestEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		var messages []*posthaste.Message
		for _, user := range []string{"ann", "ann", "bob"} {
			m := d.message()
			m.User = user
			messages = append(messages, m)
		}
		var all, added LogWriter
		at := noon
		for range from(d, 1, 2, 10) {
			var w LogWriter
			for range from(d, 1, 1, 3, 100) {
				at += from(d, posthaste.Position(1), 1<<7, 1<<28, 1<<40)
				m := from(d, messages...)
				e := posthaste.Event{Position: at, MessageID: m.ID, State: from(d, posthaste.States...)}
				all.Add(m, &e)
				w.Add(m, &e)
			}
			for i, entries := range w.Entries() {
				if entries == nil {
					continue
				}
				if err := added.AddEntries(w.Blocks[i].User, w.Blocks[i].First, entries); err != nil {
					t.Fatal(err)
				}
			}
		}
		found := map[string]map[posthaste.Position]int{"ann": {}, "bob": {}}
		tally := func(w *LogWriter, sign int) {
			for _, p := range w.Postings {
				positions, err := DecodePosting(nil, p.First, p.Gaps)
				if err != nil {
					t.Fatal(err)
				}
				checkSpan(t, p.First, positions[len(positions)-1])
				for _, at := range positions {
					found[p.User][at] += sign * int(p.Term.Hash|1)
				}
			}
		}
		tally(&all, 1)
		tally(&added, -1)
		for user := range found {
			for at, difference := range found[user] {
				if difference != 0 {
					t.Fatalf("the event of %s at %v has other terms", user, at.Time())
				}
			}
		}
		same := func(a, b Counts) bool {
			return a.User == b.User && a.Hour == b.Hour && a.Series == b.Series && slices.Equal(a.Of, b.Of)
		}
		for _, want := range all.Counts {
			if !slices.ContainsFunc(added.Counts, func(c Counts) bool { return same(c, want) }) {
				t.Fatalf("the counts lack %v: %v", want, added.Counts)
			}
		}
		if len(added.Counts) != len(all.Counts) {
			t.Fatalf("%d counts, want %d", len(added.Counts), len(all.Counts))
		}
	})
}

// FuzzAddEntries reads any bytes as entries of the index.
func FuzzAddEntries(f *testing.F) {
	var w LogWriter
	w.Add(&posthaste.Message{User: "ann"}, &posthaste.Event{Position: noon, State: posthaste.StateCreated})
	f.Add(uint64(noon), w.Entries()[0])
	f.Add(uint64(1), []byte{1})
	f.Fuzz(func(t *testing.T, first uint64, entries []byte) {
		var w LogWriter
		if w.AddEntries("ann", posthaste.Position(first), entries) != nil {
			return
		}
		for _, p := range w.Postings {
			if _, err := DecodePosting(nil, p.First, p.Gaps); err != nil || p.First < posthaste.Position(first) {
				t.Errorf("a posting at %d: %v", p.First, err)
			}
		}
	})
}
