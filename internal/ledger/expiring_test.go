package ledger_test

import (
	"crypto/rand"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
)

// submit accepts a message with the deduplication key once, by a clock.
func submit(t *testing.T, l *ledger.Ledger, now time.Time) (id posthaste.MessageID, repeated bool) {
	t.Helper()
	id, err := posthaste.NewMessageID(now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m := &posthaste.Message{ID: id, User: ann, URL: "https://a.example/", CreatedAt: now, NotBefore: now}
	accepted, err := l.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}, DedupKey: "once"}})
	if err != nil {
		t.Fatal(err)
	}
	return accepted[0].IDs[0], accepted[0].Deduplicated
}

// TestARepetitionByAClockThatIsBehind submits again by a clock that has not reached the window in
// which the submission was stored.
func TestARepetitionByAClockThatIsBehind(t *testing.T) {
	l := open(t)
	ahead := time.Unix(0, 0).Add(1_000_000 * store.DedupWindow) // a window begins
	behind := ahead.Add(-time.Second)
	first, _ := submit(t, l, ahead)
	if id, repeated := submit(t, l, behind); !repeated || id != first {
		t.Fatalf("the repetition is %s, deduplicated: %t; want %s", id, repeated, first)
	}
	if changed, err := l.Cancel(t.Context(), behind, ann, []posthaste.MessageID{first}, nil); err != nil || len(changed) != 1 {
		t.Fatalf("Cancel = %v, %v", changed, err)
	}
	second, repeated := submit(t, l, behind)
	if repeated {
		t.Fatal("a submission repeats one that was cancelled")
	}
	if id, repeated := submit(t, l, behind); !repeated || id != second {
		t.Errorf("the repetition of the second one is %s, deduplicated: %t; want %s", id, repeated, second)
	}
}
