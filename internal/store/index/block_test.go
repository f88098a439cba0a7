package index

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store"
)

var noon = posthaste.FirstPosition(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))

// What is written is read back, and each block and posting is within its bounds.
func TestLogWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		var w LogWriter
		messages := map[string][]*posthaste.Message{}
		for _, user := range []string{"ann", "bob"} {
			for range 3 {
				m := d.message()
				m.User = user
				messages[user] = append(messages[user], m)
			}
		}
		for range from(d, 1, 2) {
			w.Reset()
			want, found := map[string][]posthaste.Event{}, map[string]map[store.Term][]posthaste.Position{"ann": {}, "bob": {}}
			at, size := noon, 0
			for range from(d, 1, 10, 200) {
				at += from(d, posthaste.Position(1), 1, 1, 1<<7, 1<<28, 1<<40)
				user := from(d, "ann", "ann", "bob")
				m := from(d, messages[user]...)
				e := posthaste.Event{Position: at, MessageID: m.ID, State: from(d, posthaste.States...), Error: string(make([]byte, from(d, 0, 0, 1000)))}
				size += w.Add(m, &e)
				want[user] = append(want[user], e)
				for _, term := range slices.CompactFunc(sorted(AppendEvent(nil, m, &e)), func(a, b store.Term) bool { return a == b }) {
					found[user][term] = append(found[user][term], at)
				}
			}
			readBlocks(t, &w, want, size)
			readPostings(t, &w, found)
		}
	})
}

func sorted(terms []store.Term) []store.Term {
	slices.SortFunc(terms, func(a, b store.Term) int {
		if a.Field != b.Field {
			return int(a.Field) - int(b.Field)
		}
		if a.Hash < b.Hash {
			return -1
		}
		return 1
	})
	return terms
}

func readBlocks(t *rapid.T, w *LogWriter, want map[string][]posthaste.Event, size int) {
	got := map[string][]posthaste.Event{}
	for _, b := range w.Blocks {
		events, err := DecodeBlock(b.First, b.Data, nil)
		if err != nil || len(events) != b.Events || len(events) > MaxBlockEvents || len(b.Data) > maxBlockBytes+2000 {
			t.Fatalf("a block of %d bytes has %d events, want %d: %v", len(b.Data), len(events), b.Events, err)
		}
		checkSpan(t, b.First, events[len(events)-1].Position)
		got[b.User] = append(got[b.User], events...)
		size -= len(b.Data)
	}
	if size != 0 {
		t.Fatalf("%d bytes were not written", size)
	}
	for user := range want {
		if !slices.EqualFunc(got[user], want[user], func(a, b posthaste.Event) bool {
			return a.Position == b.Position && a.MessageID == b.MessageID && a.State == b.State && a.Error == b.Error
		}) {
			t.Fatalf("events of %s: %v, want %v", user, got[user], want[user])
		}
	}
}

func readPostings(t *rapid.T, w *LogWriter, want map[string]map[store.Term][]posthaste.Position) {
	got := map[string]map[store.Term][]posthaste.Position{"ann": {}, "bob": {}}
	for _, p := range w.Postings {
		positions, err := DecodePosting(nil, p.First, p.Gaps)
		if err != nil || p.Gaps == nil || len(p.Gaps) >= maxPostingBytes+10 {
			t.Fatalf("a posting of %d bytes: %v", len(p.Gaps), err)
		}
		checkSpan(t, p.First, positions[len(positions)-1])
		got[p.User][p.Term] = append(got[p.User][p.Term], positions...)
	}
	for user := range want {
		for term, positions := range want[user] {
			if !slices.Equal(got[user][term], positions) {
				t.Fatalf("%s finds %v by %v, want %v", user, got[user][term], term, positions)
			}
		}
		if len(got[user]) != len(want[user]) {
			t.Fatalf("%d terms of %s, want %d", len(got[user]), user, len(want[user]))
		}
	}
}

func checkSpan(t *rapid.T, first, last posthaste.Position) {
	if last-first >= MaxSpan || first.Time().UTC().YearDay() != last.Time().UTC().YearDay() {
		t.Fatalf("a block from %v to %v", first.Time(), last.Time())
	}
}

// FuzzDecodeBlock reads any bytes as a block: they are refused, or are ascending events that can
// be asked for one by one.
func FuzzDecodeBlock(f *testing.F) {
	var w LogWriter
	for i, state := range posthaste.States {
		w.Add(&posthaste.Message{}, &posthaste.Event{Position: noon + posthaste.Position(i+i*i), MessageID: posthaste.MessageID{byte(i)}, State: state, Error: "e"})
	}
	f.Add(uint64(noon), w.Blocks[0].Data)
	f.Add(uint64(0), []byte{})
	f.Add(^uint64(0), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, first uint64, block []byte) {
		events, err := DecodeBlock(posthaste.Position(first), block, nil)
		if err != nil {
			return
		}
		if len(events) == 0 || events[0].Position != posthaste.Position(first) {
			t.Fatalf("the block at %d has %d events", first, len(events))
		}
		for i, want := range events {
			if i > 0 && want.Position <= events[i-1].Position {
				t.Errorf("an event at %d follows one at %d", want.Position, events[i-1].Position)
			}
			same := func(p posthaste.Position) bool { return p == want.Position }
			one, err := DecodeBlock(posthaste.Position(first), block, same)
			if err != nil || len(one) != 1 || one[0].MessageID != want.MessageID || one[0].State != want.State {
				t.Errorf("the event at %d is not found by its position: %v", want.Position, err)
			}
		}
	})
}

// FuzzDecodePosting reads any bytes as a posting: they are refused, or are ascending positions, one
// more than there are gaps.
func FuzzDecodePosting(f *testing.F) {
	f.Add(uint64(1<<20), []byte{1, 0x80, 1})
	f.Add(uint64(1), bytes.Repeat([]byte{0xff}, 11))
	f.Fuzz(func(t *testing.T, first uint64, gaps []byte) {
		positions, err := DecodePosting(nil, posthaste.Position(first), gaps)
		if err != nil {
			return
		}
		ends := 0
		for _, b := range gaps {
			if b < 0x80 {
				ends++
			}
		}
		if positions[0] != posthaste.Position(first) || len(positions) != 1+ends || !slices.IsSorted(positions) {
			t.Errorf("%d gaps after %d are the positions %d", ends, first, positions)
		}
	})
}
