package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// Somebody keeps the turn of ann: another user's messages are claimed, those that come
// later too, and hers when her turn is over.
func TestATurnThatIsKeptStopsNobodyElse(t *testing.T) {
	url := emptyDatabase(t)
	s := openWith(t, url, postgres.Options{})
	hers, first := accept(t, s, start), acceptOf(t, s, "bob")
	over := keepLocked(t, url, ann)
	wantClaimed(t, s, first)
	wantClaimed(t, s, acceptOf(t, s, "bob"))
	wantClaimed(t, s, acceptOf(t, s, "carl"), acceptOf(t, s, "dora"))
	over()
	wantClaimed(t, s, hers)
}

// The claim of a user whose turn is kept stands in line while others come.
func TestAClaimThatWaitsForATurnStopsNobodyElse(t *testing.T) {
	url := emptyDatabase(t)
	s := openWith(t, url, postgres.Options{})
	hers := accept(t, s, start)
	over := keepLocked(t, url, ann)
	wantNoClaims(t, s)
	wantClaimed(t, s, acceptOf(t, s, "bob"))
	over()
	wantClaimed(t, s, hers)
}

// Somebody keeps the turn of a user of whose messages a dead node had some: those of others
// are claimed meanwhile, and hers when her turn is over.
func TestALeaseThatCannotBeMadeVoidStopsNobodyElse(t *testing.T) {
	url := emptyDatabase(t)
	dead, s := open(t, url), openWith(t, url, postgres.Options{})
	hers := accept(t, dead, start)
	claimOne(t, dead, hers)
	execute(t, url, `UPDATE posthaste.nodes SET expires_at = '-infinity'`)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	over := keepLocked(t, url, ann)
	wantClaimed(t, s, acceptOf(t, s, "bob"))
	over()
	wantClaimed(t, s, hers)
}

// A message that was to be cancelled when its node died is damaged, so nobody can end it. That is
// told, and stops nobody else.
func TestALeaseOnADamagedMessageStopsNobodyElse(t *testing.T) {
	url := emptyDatabase(t)
	dead, s := open(t, url), openWith(t, url, postgres.Options{})
	hers, other := accept(t, dead, start), acceptOf(t, dead, "bob")
	claims, _, err := dead.Claim(t.Context(), start, 10)
	if err != nil || len(claims) != 2 {
		t.Fatalf("Claim = %d claims, %v, want 2", len(claims), err)
	}
	if _, err := s.Cancel(t.Context(), start, ann, []posthaste.MessageID{hers.ID}, nil); err != nil {
		t.Fatal(err)
	}
	execute(t, url, `UPDATE posthaste.messages SET record = 'nothing' WHERE user_id = $1`, ann)
	execute(t, url, `UPDATE posthaste.nodes SET expires_at = '-infinity'`)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, _, err := s.Claim(t.Context(), start, 10)
	if len(again) != 1 || again[0].Message.ID != other.ID || err == nil || !strings.Contains(err.Error(), hers.ID.String()) {
		t.Errorf("Claim = %v, %v; want %s alone, and an error that names %s", again, err, other.ID, hers.ID)
	}
	wantNoClaims(t, s)
}

// What was claimed of some is handed out while the turn of another is kept, however long a
// claim of her messages alone would wait.
func TestWhatIsClaimedWaitsForNoTurn(t *testing.T) {
	url := emptyDatabase(t)
	s := openWith(t, url, postgres.Options{}.WithPatience(time.Hour))
	hers, other := accept(t, s, start), acceptOf(t, s, "bob")
	over := keepLocked(t, url, ann)
	settle(t, s, store.Delivered(claimOne(t, s, other)))
	over()
	wantClaimed(t, s, hers)
}

// A claim that fails before it has taken any turn says so, and does not find that nothing
// is due.
func TestAClaimOfSeveralUsersThatFails(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	accept(t, s, start)
	acceptOf(t, s, "bob")
	later := start.Add(7 * 24 * time.Hour)
	inTheWay := "posthaste.postings_" + later.Format("20060102")
	execute(t, url, `CREATE TABLE `+inTheWay+` ()`)
	defer execute(t, url, `DROP TABLE `+inTheWay)
	if claims, _, err := s.Claim(t.Context(), later, 10); err == nil {
		t.Errorf("Claim = %v and no error, want what is in the way of the log", claims)
	}
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

// keepLocked keeps the turn of a user until over is called.
func keepLocked(t *testing.T, url, user string) (over func()) {
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

// A message that was to be cancelled when its node died ends with the next claim, also in a queue
// that is paused, where it keeps its slot until then.
func TestWhatIsToBeCancelledWaitsForNothing(t *testing.T) {
	url := emptyDatabase(t)
	dead, s := open(t, url), openWith(t, url, postgres.Options{})
	m := newMessage(start)
	m.Queue = "q"
	if err := acceptOne(t.Context(), s, m); err != nil {
		t.Fatal(err)
	}
	claimOne(t, dead, m)
	if _, err := s.Cancel(t.Context(), start, ann, []posthaste.MessageID{m.ID}, nil); err != nil {
		t.Fatal(err)
	}
	err := s.UpdateQueue(t.Context(), start, ann, "q", func(q *posthaste.Queue) error {
		q.Paused = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, `UPDATE posthaste.nodes SET expires_at = '-infinity'`)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNoClaims(t, s)
	if status, err := s.Message(t.Context(), ann, m.ID); err != nil || status.State != posthaste.StateCancelled {
		t.Errorf("the message is %s, %v, want CANCELLED", status.State, err)
	}
	wantWhole(t, url)
}
