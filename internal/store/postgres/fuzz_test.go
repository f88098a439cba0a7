package postgres

import (
	"bytes"
	"slices"
	"testing"

	"posthaste"
	"posthaste/internal/store/record"
)

// FuzzDecodeEvents reads any bytes as a block of events: they are refused, or are events
// whose positions can be asked for one by one.
func FuzzDecodeEvents(f *testing.F) {
	event := posthaste.Event{State: posthaste.StateCreated}
	stored := record.AppendEvent(nil, &event)
	block := append(make([]byte, 1+len(posthaste.MessageID{})), byte(len(stored)))
	f.Add(int64(1), append(block, stored...))
	f.Add(int64(0), []byte{})
	f.Add(int64(-1), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, first int64, data []byte) {
		events, err := decodeEvents(first, data, func(posthaste.Position) bool { return true })
		if err != nil {
			return
		}
		for _, want := range events {
			same := func(p posthaste.Position) bool { return p == want.Position }
			some, err := decodeEvents(first, data, same)
			if err != nil || !slices.ContainsFunc(some, func(e posthaste.Event) bool { return e.MessageID == want.MessageID && e.State == want.State }) {
				t.Errorf("the event at %d is not found by its position: %v", want.Position, err)
			}
		}
	})
}

// FuzzDecodeGaps reads any bytes as a posting: what is accepted is one position more than
// there are gaps.
func FuzzDecodeGaps(f *testing.F) {
	f.Add(uint64(1<<20), []byte{1, 0x80, 1})
	f.Add(uint64(1), bytes.Repeat([]byte{0xff}, 11))
	f.Fuzz(func(t *testing.T, first uint64, gaps []byte) {
		positions, err := decodeGaps(nil, posthaste.Position(first), gaps)
		if err != nil {
			return
		}
		ends := 0
		for _, b := range gaps {
			if b < 0x80 {
				ends++
			}
		}
		if positions[0] != posthaste.Position(first) || len(positions) != 1+ends {
			t.Errorf("%d gaps after %d are %d positions from %d on", ends, first, len(positions), positions[0])
		}
	})
}
