package lsm

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
)

func drawSpot(t *rapid.T) lanes.Spot {
	var id posthaste.MessageID
	copy(id[:], rapid.SliceOfN(rapid.Byte(), len(id), len(id)).Draw(t, "id"))
	return lanes.Spot{Order: posthaste.Position(rapid.Uint64Max(1<<63).Draw(t, "order")), ID: id}
}

func drawLane(t *rapid.T) lanes.ID {
	return lanes.ID{
		User: rapid.StringN(0, 20, 255).Draw(t, "user"),
		Lane: posthaste.Lane{
			Kind: rapid.SampledFrom([]posthaste.LaneKind{posthaste.LaneHost, posthaste.LaneFlow, posthaste.LaneQueue}).Draw(t, "kind"),
			Name: rapid.String().Draw(t, "name"),
		},
	}
}

func TestWaitingKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lane, a, b := drawLane(t), drawSpot(t), drawSpot(t)
		keyA, keyB := appendWaitingKey(nil, lane, a), appendWaitingKey(nil, lane, b)
		gotLane, gotSpot, ok := parseWaitingKey(keyA)
		if !ok || gotLane != lane || gotSpot != a || parseSpot(keyA) != a {
			t.Fatalf("key of %+v %+v is read as %+v %+v, %v", lane, a, gotLane, gotSpot, ok)
		}
		if a.Before(b) != (bytes.Compare(keyA, keyB) < 0) {
			t.Fatalf("keys of %+v and %+v are not in their order", a, b)
		}
		prefix, end := appendLane(nil, lane), store.PrefixEnd(appendLane(nil, lane))
		if !bytes.HasPrefix(keyA, prefix) || bytes.Compare(keyA, end) >= 0 {
			t.Fatalf("key %x is not between its lane's %x and %x", keyA, prefix, end)
		}
	})
}

// A text of any length is read back as it was written, whatever follows it (contract,
// decision 35).
func TestTexts(t *testing.T) {
	for _, size := range []int{0, 1, 256, 1<<16 - 2, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 20} {
		text := strings.Repeat("x", size)
		lane, place := lanes.ID{User: "ann", Lane: posthaste.Lane{Kind: posthaste.LaneFlow, Name: text}}, lanes.Spot{Order: 7, ID: posthaste.MessageID{1}}
		if gotLane, gotPlace, ok := parseWaitingKey(appendWaitingKey(nil, lane, place)); !ok || gotLane != lane || gotPlace != place {
			t.Errorf("a lane whose name has %d bytes is read as one of %d, %v", size, len(gotLane.Name), ok)
		}
		got, rest, ok := cutText(append(appendText(nil, text), "tail"...))
		if !ok || string(got) != text || string(rest) != "tail" {
			t.Errorf("a text of %d bytes is read as one of %d and the rest %.20q, %v", size, len(got), rest, ok)
		}
	}
}

// No lane's keys lie among another's, whatever their names.
func TestLanesDoNotMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawLane(t), drawLane(t)
		if a == b {
			t.Skip()
		}
		key := appendWaitingKey(nil, b, drawSpot(t))
		if bytes.HasPrefix(key, appendLane(nil, a)) {
			t.Fatalf("key of lane %+v has the prefix of lane %+v", b, a)
		}
	})
}

func FuzzParseWaitingKey(f *testing.F) {
	f.Add(appendWaitingKey(nil, lanes.ID{User: "ann", Lane: posthaste.Lane{Kind: posthaste.LaneQueue, Name: "q"}}, lanes.Spot{Order: 7, ID: posthaste.MessageID{1}}))
	f.Add([]byte{kindWaiting, 200})
	f.Fuzz(func(t *testing.T, key []byte) {
		lane, place, ok := parseWaitingKey(key)
		if ok && !bytes.Equal(appendWaitingKey(nil, lane, place), key) {
			t.Errorf("key %x is read as %+v %+v, which is another key", key, lane, place)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add(status{
		state: posthaste.StateRetry, order: 1 << 62,
		Waiting: lanes.Waiting{Retried: 300, CancelRequested: true, ReadyMS: 1 << 41, FlowKey: "k", Callbacks: 2, Ended: true, Size: 1 << 20},
	}.append(nil))
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseStatus(data)
		if err != nil {
			return
		}
		again, err := parseStatus(s.append(nil))
		if err != nil || again != s {
			t.Errorf("%+v is read back as %+v, %v", s, again, err)
		}
	})
}
