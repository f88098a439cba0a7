package postgres_test

import (
	"testing"

	"posthaste"
	"posthaste/internal/store"
)

// However large messages are, a call reads a bounded part of them, and the next goes on
// behind it.
func TestLargeMessagesAreReadInParts(t *testing.T) {
	const count, size, atOnce, claimed = 70, 1 << 20, 16, 64
	s := open(t, emptyDatabase(t))
	for range count {
		m := newMessage(start)
		m.Body = make([]byte, size)
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	var read []posthaste.MessageID
	for query := (store.LiveQuery{Limit: count}); len(read) == 0 || query.Cursor != ""; {
		ids, cursor, err := s.LiveMessages(t.Context(), ann, query)
		if err != nil || len(ids) > atOnce {
			t.Fatalf("%d messages are read at once, %v, want %d at most", len(ids), err, atOnce)
		}
		read, query.Cursor = append(read, ids...), cursor
	}
	if len(read) != count {
		t.Errorf("%d messages are read, want %d", len(read), count)
	}
	for _, want := range []int{claimed, count - claimed} {
		claims, next, err := s.Claim(t.Context(), start, 2*count)
		if err != nil || len(claims) != want {
			t.Fatalf("Claim returns %d messages, %v, want %d", len(claims), err, want)
		}
		if more := want == claimed; more && next.After(start) {
			t.Errorf("the next claim is at %v, want now", next)
		}
	}
}
