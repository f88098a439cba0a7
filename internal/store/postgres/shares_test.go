package postgres_test

import (
	"log/slog"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

// openDivided joins the nodes of a database whose users have partitions.
func openDivided(t *testing.T, url string, partitions store.Partitions) *ruled {
	t.Helper()
	return openWith(t, url, postgres.Options{Partitions: partitions}.WithPatience(claimPatience))
}

// fillSlots accepts a message in each slot, due at a time.
func fillSlots(t *testing.T, s *ruled, at time.Time) {
	t.Helper()
	for slot := range posthaste.Slot(posthaste.Slots) {
		m := newMessage(at)
		m.SetSlot(func(string, posthaste.Slot) posthaste.Slot { return slot })
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
}

// claimSlots claims all that there is to claim, and returns in which slots it was, and when to ask again.
func claimSlots(t *testing.T, s *ruled, at time.Time) (slots map[posthaste.Slot]bool, next time.Time) {
	t.Helper()
	slots = map[posthaste.Slot]bool{}
	for again := true; again; {
		again = s.AnyClaiming()
		claims, then, err := s.Claim(t.Context(), at, 4*posthaste.Slots)
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range claims {
			slots[claim.Message.ID.Slot()] = true
			settle(t, s, store.Delivered(claim))
		}
		again, next = again || len(claims) > 0, then
	}
	return slots, next
}

// Each node claims what is in its share, and what is in another one only when that has waited for a
// second: its node may be dead.
func TestNodesServeTheirShares(t *testing.T) {
	url := emptyDatabase(t)
	a, b := openDivided(t, url, 16), openDivided(t, url, 16)
	a.RenewShare()
	fillSlots(t, a, start)
	byA, next := claimSlots(t, a, start)
	if want := start.Add(time.Second); !next.Equal(want) {
		t.Errorf("the first node is to ask again at %v, want %v, when what the other leaves is due", next, want)
	}
	byB, _ := claimSlots(t, b, start)
	for slot := range posthaste.Slot(posthaste.Slots) {
		if byA[slot] == byB[slot] {
			t.Errorf("slot %d is served by the first node: %t, by the second: %t", slot, byA[slot], byB[slot])
		}
	}
	if len(byA) != 32 || len(byB) != 32 {
		t.Errorf("the nodes serve %d and %d slots, want 32 each", len(byA), len(byB))
	}
	fillSlots(t, b, start.Add(time.Minute))
	if late, _ := claimSlots(t, a, start.Add(time.Minute+time.Second)); len(late) != posthaste.Slots {
		t.Errorf("a second later the first node serves %d slots, want all", len(late))
	}
}

// What a node served that leaves, or is about to, is served by the others at once.
func TestSharesOfNodesThatLeave(t *testing.T) {
	for name, leave := range map[string]func(*ruled) error{
		"leaves": func(s *ruled) error { return s.Ledger.Close() },
		"drains": func(s *ruled) error { return s.Drain(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			url := emptyDatabase(t)
			stays, other := openDivided(t, url, 4), openDivided(t, url, 4)
			if err := leave(other); err != nil {
				t.Fatal(err)
			}
			stays.RenewShare()
			fillSlots(t, stays, start)
			if served, _ := claimSlots(t, stays, start); len(served) != posthaste.Slots {
				t.Errorf("the one that stays serves %d slots, want all", len(served))
			}
		})
	}
}

// A node that drains still finishes what nobody else takes.
func TestANodeThatDrainsIsNotIdle(t *testing.T) {
	s := openDivided(t, emptyDatabase(t), 4)
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	fillSlots(t, s, start)
	if served, _ := claimSlots(t, s, start); len(served) != 0 {
		t.Errorf("it claims %d messages at once, want none", len(served))
	}
	if served, _ := claimSlots(t, s, start.Add(time.Second)); len(served) != posthaste.Slots {
		t.Errorf("a second later it claims %d messages, want all", len(served))
	}
}

// Users are divided into as many partitions as any node has asked for.
func TestPartitionsOfADatabase(t *testing.T) {
	url := emptyDatabase(t)
	if got := openDivided(t, url, 4).Division().Partitions; got != 4 {
		t.Errorf("a database that was to have 4 partitions has %d", got)
	}
	wantPartitions(t, url, 4)
	for wanted, want := range map[store.Partitions]store.Partitions{1: 4, 4: 4} {
		if got := openDivided(t, url, wanted).Division().Partitions; got != want {
			t.Errorf("a node that asks for %d partitions takes users to have %d, want %d", wanted, got, want)
		}
	}
	openDivided(t, url, 16)
	wantPartitions(t, url, 16)
	wantPartitions(t, emptyDatabase(t), 1)
	undivided := emptyDatabase(t)
	openDivided(t, undivided, 1)
	wantPartitions(t, undivided, 1)
}

// wantPartitions opens a database for as many partitions as there are.
func wantPartitions(t *testing.T, url string, want store.Partitions) {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got := s.Division().Partitions; got != want {
		t.Errorf("users have %d partitions, want %d", got, want)
	}
}
