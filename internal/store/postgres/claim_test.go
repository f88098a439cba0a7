package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// Somebody keeps the turn of ann: another user's messages are claimed, those that come
// later too, and hers when her turn is over.
func TestATurnThatIsKeptStopsNobodyElse(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	hers, first := accept(t, s, start), acceptOf(t, s, "bob")
	over := keepTurn(t, url, ann)
	wantClaimed(t, s, first)
	wantClaimed(t, s, acceptOf(t, s, "bob"))
	wantClaimed(t, s, acceptOf(t, s, "carl"), acceptOf(t, s, "dora"))
	over()
	wantClaimed(t, s, hers)
}

// The claim of a user whose turn is kept stands in line while others come.
func TestAClaimThatWaitsForATurnStopsNobodyElse(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	hers := accept(t, s, start)
	over := keepTurn(t, url, ann)
	wantNoClaims(t, s)
	wantClaimed(t, s, acceptOf(t, s, "bob"))
	over()
	wantClaimed(t, s, hers)
}

func acceptOf(t *testing.T, s store.Store, user string) *posthaste.Message {
	t.Helper()
	m := newMessage(start)
	m.User = user
	if err := acceptOne(t.Context(), s, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// keepTurn keeps the turn of a user until over is called.
func keepTurn(t *testing.T, url, user string) (over func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT FROM posthaste.users WHERE user_id = $1 FOR UPDATE`, user); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Error(err)
		}
	}
}

// wantClaimed claims until it has the messages, and nothing else.
func wantClaimed(t *testing.T, s store.Store, messages ...*posthaste.Message) {
	t.Helper()
	want := map[posthaste.MessageID]bool{}
	for _, m := range messages {
		want[m.ID] = true
	}
	for deadline := time.Now().Add(patience); len(want) > 0; {
		claims, _, err := s.Claim(t.Context(), start, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range claims {
			if !want[claim.Message.ID] {
				t.Fatalf("message %s of %s is claimed, want %v", claim.Message.ID, claim.Message.User, want)
			}
			delete(want, claim.Message.ID)
			settle(t, s, store.Delivered(claim))
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is claimed any more, want %v", want)
		}
	}
}
