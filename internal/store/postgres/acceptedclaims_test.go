package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
)

var claimingAccepted = postgres.Options{ClaimAccepted: true}.WithPatience(claimPatience)

// A message for whose host nothing waits is claimed by the commit that accepts it: its Claim needs no
// transaction.
func TestAcceptedMessagesAreClaimed(t *testing.T) {
	for name, partitions := range map[string]store.Partitions{"one partition": 1, "four": 4} {
		t.Run(name, func(t *testing.T) {
			counted := &counter{}
			options := claimingAccepted.WithTracer(counted)
			options.Partitions = partitions
			s := openWith(t, emptyDatabase(t), options)
			for range 8 * partitions { // some of each, so that their rows are there
				settle(t, s, store.Delivered(claimOne(t, s, accept(t, s, start))))
			}
			const most, roundTrips = 9, 2
			const rounds = 3 // the index may be written in one of them
			exceeded := 0
			for range rounds {
				wantNoClaims(t, s)
				counted.reset()
				m := accept(t, s, start)
				if statements, trips := counted.totals(); len(statements) > most || trips != roundTrips {
					exceeded++
					t.Logf("accepted with %d statements in %d round trips, want at most %d in %d: %q", len(statements), trips, most, roundTrips, statements)
				}
				counted.reset()
				claim := claimOne(t, s, m)
				if statements, _ := counted.totals(); slices.ContainsFunc(statements, isBegin) {
					t.Errorf("Claim made a transaction: %q", statements)
				}
				settle(t, s, store.Delivered(claim))
				want := []posthaste.State{posthaste.StateCreated, posthaste.StateActive, posthaste.StateDelivered}
				if states := statesOf(t, s.Ledger, m); !slices.Equal(states, want) {
					t.Errorf("states %v, want %v", states, want)
				}
			}
			if exceeded == rounds {
				t.Error("each acceptance took more")
			}
		})
	}
}

func isBegin(statement string) bool { return strings.HasPrefix(statement, "BEGIN") }

// A commit claims no message that must wait, and none that has to be weighed against others.
func TestAcceptedMessagesThatAreLeftToClaim(t *testing.T) {
	of := func(change func(m *posthaste.Message)) func(*testing.T, *ruled) *posthaste.Message {
		return func(*testing.T, *ruled) *posthaste.Message {
			m := newMessage(start)
			change(m)
			return m
		}
	}
	for name, message := range map[string]func(*testing.T, *ruled) *posthaste.Message{
		"delayed":         of(func(m *posthaste.Message) { m.NotBefore = start.Add(time.Hour) }),
		"in a queue":      of(func(m *posthaste.Message) { m.Queue = "q" }),
		"under a key":     of(func(m *posthaste.Message) { m.FlowControl.Key = "k" }),
		"of a large body": of(func(m *posthaste.Message) { m.Body = make([]byte, flow.SmallMessage) }),
		"behind another": func(t *testing.T, s *ruled) *posthaste.Message {
			first := newMessage(start)
			first.Body = make([]byte, flow.SmallMessage)
			if err := acceptOne(t.Context(), s, first); err != nil {
				t.Fatal(err)
			}
			m := newMessage(start)
			m.URL = first.URL
			return m
		},
		"without a free slot": func(t *testing.T, s *ruled) *posthaste.Message {
			first := accept(t, s, start)
			if claims, _, err := s.Claim(t.Context(), start, 1); err != nil || len(claims) != 1 || claims[0].Message.ID != first.ID {
				t.Fatalf("Claim = %v, %v, want %s", claims, err, first.ID)
			}
			return newMessage(start)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openWith(t, emptyDatabase(t), claimingAccepted)
			wantNoClaims(t, s)
			m := message(t, s)
			if err := acceptOne(t.Context(), s, m); err != nil {
				t.Fatal(err)
			}
			if states := statesOf(t, s, m); !slices.Equal(states, []posthaste.State{posthaste.StateCreated}) {
				t.Errorf("states %v before Claim, want CREATED alone", states)
			}
			claims, _, err := s.Claim(t.Context(), start.Add(time.Hour), 100)
			if err != nil || !slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Message.ID == m.ID }) {
				t.Errorf("Claim = %v, %v, want %s among them", claims, err, m.ID)
			}
		})
	}
}

// No commit claims more than there are free slots, whatever is accepted at once.
func TestAcceptedMessagesTakeFreeSlotsOnly(t *testing.T) {
	const slots, messages = 4, 20
	s := openWith(t, emptyDatabase(t), claimingAccepted)
	if claims, _, err := s.Claim(t.Context(), start, slots); err != nil || len(claims) > 0 {
		t.Fatalf("Claim = %v, %v, want nothing", claims, err)
	}
	all := make([]*posthaste.Message, messages)
	for i := range all {
		all[i] = newMessage(start)
	}
	if _, err := s.Accept(t.Context(), start, []store.Submission{{Messages: all}}); err != nil {
		t.Fatal(err)
	}
	active := 0
	for _, m := range all {
		if slices.Contains(statesOf(t, s, m), posthaste.StateActive) {
			active++
		}
	}
	if active == 0 || active > slots {
		t.Errorf("%d of %d messages were claimed, want 1 to %d", active, messages, slots)
	}
	claimed := 0
	for claimed < messages {
		claims, _, err := s.Claim(t.Context(), start, messages)
		if err != nil || len(claims) == 0 {
			t.Fatalf("Claim = %v, %v after %d claims, want the rest", claims, err, claimed)
		}
		claimed += len(claims)
	}
}

// Nobody knows whether a commit took place whose connection is lost. If it did, the message that it has
// claimed is claimed again.
func TestAcceptedMessagesOfALostCommit(t *testing.T) {
	for moment, took := range map[int32]bool{beforeCommit: false, afterCommit: true} {
		t.Run(map[bool]string{false: "before", true: "after"}[took], func(t *testing.T) {
			cutter, url := newCutter(t, emptyDatabase(t))
			s := openWith(t, url, claimingAccepted)
			settle(t, s, store.Delivered(claimOne(t, s, accept(t, s, start))))
			wantNoClaims(t, s)
			cutter.armed.Store(moment)
			m := newMessage(start)
			if err := acceptOne(t.Context(), s, m); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("Accept = %v, want ErrUnavailable", err)
			}
			want := []posthaste.State{posthaste.StateCreated, posthaste.StateActive, posthaste.StateDelivered}
			if took {
				want = slices.Insert(want, 1, posthaste.StateActive) // that nobody has worked on
			} else if err := acceptOne(t.Context(), s, m); err != nil {
				t.Fatal(err)
			}
			settle(t, s, store.Delivered(claimOne(t, s, m)))
			if states := statesOf(t, s, m); !slices.Equal(states, want) {
				t.Errorf("states %v, want %v", states, want)
			}
		})
	}
}

// A message that is claimed by its commit and released waits like any other.
func TestAcceptedMessagesThatAreReleased(t *testing.T) {
	s := openWith(t, emptyDatabase(t), claimingAccepted)
	settle(t, s, store.Delivered(claimOne(t, s, accept(t, s, start))))
	wantNoClaims(t, s)
	m := accept(t, s, start)
	claim := claimOne(t, s, m)
	if err := s.Release(t.Context(), start, []store.Claim{claim}); err != nil {
		t.Fatal(err)
	}
	settle(t, s, store.Delivered(claimOne(t, s, m)))
	wantNoClaims(t, s)
}

// Messages for a host that are not due keep no other from being claimed by its commit, and an attempt that
// ends beside them is nothing to look at.
func TestAcceptedMessagesBesideDelayedOnes(t *testing.T) {
	counted := &counter{}
	s := openWith(t, emptyDatabase(t), claimingAccepted.WithTracer(counted))
	delayed := newMessage(start)
	delayed.NotBefore = start.Add(time.Hour)
	if err := acceptOne(t.Context(), s, delayed); err != nil {
		t.Fatal(err)
	}
	wantNoClaims(t, s)
	for range 3 {
		m := newMessage(start)
		m.URL = delayed.URL
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		counted.reset()
		claim := claimOne(t, s, m)
		if statements, _ := counted.totals(); slices.ContainsFunc(statements, isBegin) {
			t.Errorf("Claim made a transaction: %q", statements)
		}
		settle(t, s, store.Delivered(claim))
		counted.reset()
		wantNoClaims(t, s)
		if statements, _ := counted.totals(); slices.ContainsFunc(statements, isBegin) {
			t.Errorf("Claim made a transaction when nothing is due: %q", statements)
		}
	}
	claims, _, err := s.Claim(t.Context(), delayed.NotBefore, 10)
	if err != nil || len(claims) != 1 || claims[0].Message.ID != delayed.ID {
		t.Errorf("Claim = %v, %v, want the delayed message", claims, err)
	}
}

// A node that drains claims nothing with what it accepts, and releases what its commits have claimed.
func TestAcceptedMessagesOfANodeThatDrains(t *testing.T) {
	url := emptyDatabase(t)
	s, other := openWith(t, url, claimingAccepted), open(t, url)
	settle(t, s, store.Delivered(claimOne(t, s, accept(t, s, start))))
	wantNoClaims(t, s)
	first := accept(t, s, start)
	wantNoClaims(t, other)
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := accept(t, s, start)
	wantNoClaims(t, s)
	claims, _, err := other.Claim(t.Context(), s.Now(), 100)
	if err != nil || len(claims) != 2 {
		t.Fatalf("the other node's Claim = %v, %v, want %s and %s", claims, err, first.ID, second.ID)
	}
}
