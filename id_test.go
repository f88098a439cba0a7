package posthaste_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste"
)

func drawID(t *rapid.T, label string) posthaste.MessageID {
	ms := rapid.Int64Range(0, 1<<48-1).Draw(t, label+" time")
	random := rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, label+" random")
	id, err := posthaste.NewMessageID(time.UnixMilli(ms), bytes.NewReader(random))
	if err != nil {
		t.Fatal(err)
	}
	if id.CreatedAt().UnixMilli() != ms {
		t.Fatalf("id made at %d says %d", ms, id.CreatedAt().UnixMilli())
	}
	return id
}

func TestMessageIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawID(t, "a"), drawID(t, "b")
		parsed, err := posthaste.ParseMessageID(a.String())
		if err != nil || parsed != a {
			t.Fatalf("%s is read as %s, %v", a, parsed, err)
		}
		if (a.String() < b.String()) != (bytes.Compare(a[:], b[:]) < 0) {
			t.Fatalf("%s and %s are not in the order of their bytes", a, b)
		}
	})
}

func TestParseMessageIDRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":         "",
		"no prefix":       "1111111111111111111111",
		"other prefix":    "scd_1111111111111111111111",
		"too short":       "msg_111111111111111111111",
		"too long":        "msg_11111111111111111111111",
		"a digit of none": "msg_111111111111111111111l",
		"over 128 bits":   "msg_zzzzzzzzzzzzzzzzzzzzzz",
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := posthaste.ParseMessageID(text); err == nil {
				t.Errorf("%q is read as %s", text, id)
			}
		})
	}
}

func FuzzParseMessageID(f *testing.F) {
	f.Add("msg_1ChFQx3sXn5Lz7k7Chppfj")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := posthaste.ParseMessageID(text); err == nil && id.String() != text {
			t.Errorf("%q is read as %s", text, id)
		}
	})
}

func FuzzParseDeadLetterID(f *testing.F) {
	f.Add("1725323658779-0")
	f.Add("01-00")
	f.Fuzz(func(t *testing.T, text string) {
		if id, ok := posthaste.ParseDeadLetterID(text); ok && id.String() != text {
			t.Errorf("%q is read as %s", text, id)
		}
	})
}

func TestDeadLetterIDs(t *testing.T) {
	at := time.UnixMilli(1_725_323_658_779)
	id := posthaste.DeadLetterID(posthaste.FirstPosition(at) + 7)
	if id.String() != "1725323658779-7" {
		t.Errorf("id = %s, want 1725323658779-7", id)
	}
	if parsed, ok := posthaste.ParseDeadLetterID(id.String()); !ok || parsed != id {
		t.Errorf("%s is read as %s, %v", id, parsed, ok)
	}
	letter := posthaste.DeadLetter{ID: id}
	if !letter.FailedAt().Equal(at) {
		t.Errorf("failed at %s, want %s", letter.FailedAt(), at)
	}
}

// Positions increase whatever the clock does, and say the time when it moves.
func TestPositions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.UnixMilli(1_700_000_000_000)
		last := posthaste.FirstPosition(start)
		for range 50 {
			now := start.Add(time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "now")) * time.Millisecond)
			slot := posthaste.Slot(rapid.IntRange(0, posthaste.Slots-1).Draw(t, "slot"))
			next := last.Next(now, slot)
			if next <= last || next.Slot() != slot || next.Time().Before(now) || next > max(posthaste.FirstPosition(now)-1, last)+posthaste.Slots {
				t.Fatalf("after %d at %s comes %d", last, now, next)
			}
			last = next
		}
	})
	if posthaste.FirstPosition(time.Time{}) != 0 || posthaste.LastPosition(time.Unix(1<<50, 0)) > posthaste.MaxPosition {
		t.Error("times beyond all positions are not clamped")
	}
}
