package postgres_test

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

const year = 365 * 24 * time.Hour

// A node whose clock is a year ahead does not join: it hands out nothing that is delayed, and
// leaves no trace.
func TestANodeWithAWrongClockDoesNotJoin(t *testing.T) {
	url := emptyDatabase(t)
	right := open(t, url)
	before := nodesOf(t, url)
	_, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.DiscardHandler)}.
		WithClock(func() time.Duration { return year }))
	if !errors.Is(err, store.ErrClock) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open = %v, want store.ErrClock, and that it may be tried again", err)
	}
	if after := nodesOf(t, url); after != before {
		t.Errorf("there are %d nodes, want %d as before", after, before)
	}
	accept(t, right, start)
}

// The clock of a node that lives is set a year ahead, and right again. In between it takes no
// part: its attempts end, and all it is asked for is refused with the reason.
func TestAClockThatIsSetWrongAndRightAgain(t *testing.T) {
	url := emptyDatabase(t)
	var ahead atomic.Int64
	s := openWith(t, url, postgres.Options{}.WithPatience(claimPatience).WithClock(func() time.Duration { return time.Duration(ahead.Load()) }))
	m := accept(t, s, start)
	claim := claimOne(t, s, m)

	ahead.Store(int64(year))
	if err := s.Ping(t.Context()); !errors.Is(err, store.ErrClock) { // which compares the clocks
		t.Fatalf("Ping = %v, want store.ErrClock", err)
	}
	wantSignal(t, "the end of what was claimed", claim.Held.Done())
	_, _, claimErr := s.Claim(t.Context(), start.Add(year), 10)
	_, readErr := s.Message(t.Context(), ann, m.ID)
	_, settleErr := s.Settle(t.Context(), start.Add(year), store.Delivered(claim))
	for call, err := range map[string]error{
		"Accept": acceptOne(t.Context(), s, newMessage(start.Add(year))), "Claim": claimErr, "Message": readErr,
		"Settle": settleErr,
	} {
		if !errors.Is(err, store.ErrClock) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s = %v, want store.ErrClock and store.ErrUnavailable", call, err)
		}
	}

	ahead.Store(0)
	for deadline := time.Now().Add(patience); s.Ping(t.Context()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node does not take part again")
		}
	}
	settle(t, s, store.Delivered(claimOne(t, s, m)))
}

// Now is the time of the database.
func TestNowIsTheTimeOfTheDatabase(t *testing.T) {
	const certain = 5 * time.Second // far more than it takes to ask
	url := emptyDatabase(t)
	s := open(t, url)
	there := queryOne[time.Time](t, url, `SELECT clock_timestamp()`)
	if apart := s.Now().Sub(there).Abs(); apart > certain {
		t.Errorf("Now is %v from the time of the database", apart)
	}
}

func nodesOf(t *testing.T, url string) int64 {
	t.Helper()
	return queryOne[int64](t, url, `SELECT count(*) FROM posthaste.nodes`)
}
