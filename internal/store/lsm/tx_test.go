package lsm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/postings"
)

var txNow = time.UnixMilli(1_800_000_000_000)

// txTest is a store and what tests of its transactions do to it.
type txTest struct {
	testing.TB
	*Store
}

func newTxTest(tb testing.TB) *txTest {
	s, err := Open("data", Options{FS: vfs.NewMem()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return &txTest{tb, s}
}

var errRefused = errors.New("refused")

func (t *txTest) newMessage(queue string) *posthaste.Message {
	id, err := posthaste.NewMessageID(txNow, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &posthaste.Message{ID: id, User: "ann", URL: "http://a.example/", Queue: queue, CreatedAt: txNow, NotBefore: txNow}
}

// acceptIn accepts a message as the rules do.
func acceptIn(tx store.Tx, m *posthaste.Message) {
	at := tx.Log(m, store.Created(m))
	tx.Accept(m, store.Place{State: posthaste.StateCreated, Order: max(posthaste.FirstPosition(m.NotBefore), at), DueAt: m.NotBefore})
}

func (t *txTest) update(change func(store.Tx) error) error {
	return t.Update(t.Context(), txNow, store.Scope{User: "ann"}, change)
}

func (t *txTest) accept(queue string) *posthaste.Message {
	t.Helper()
	m := t.newMessage(queue)
	if err := t.update(func(tx store.Tx) error { acceptIn(tx, m); return nil }); err != nil {
		t.Fatal(err)
	}
	return m
}

// place returns where a message stands, which must be stored.
func (t *txTest) place(tx store.Reader, m *posthaste.Message) *store.Place {
	place, err := tx.Place(m.ID)
	if err != nil {
		t.Error(err)
		return &store.Place{}
	}
	return place
}

// claimOf claims all there is, and requires it to be those messages.
func (t *txTest) claimOf(want ...*posthaste.Message) []store.Claim {
	t.Helper()
	claims, _, err := t.Claim(t.Context(), txNow, 100)
	if err != nil {
		t.Error(err)
	}
	id := func(m *posthaste.Message) posthaste.MessageID { return m.ID }
	if got := each(claims, func(c store.Claim) posthaste.MessageID { return c.Message.ID }); !slices.Equal(got, each(want, id)) {
		t.Errorf("claimed %v, want %v", got, each(want, id))
	}
	return claims
}

// wantNoHolds requires that no message is held.
func (t *txTest) wantNoHolds() {
	t.Helper()
	if n := t.scheduler.Memory().Holds; n > 0 {
		t.Errorf("%d messages are held", n)
	}
}

// TestUpdateHolds reads the place of the first of two messages: nobody claims it meanwhile, and in a
// queue no other overtakes it. Afterwards it is claimed as if nothing had happened.
func TestUpdateHolds(t *testing.T) {
	for _, queue := range []string{"", "q"} {
		for _, result := range []error{nil, errRefused} {
			t.Run(fmt.Sprint(queue, result), func(t *testing.T) {
				s := newTxTest(t)
				first, second := s.accept(queue), s.accept(queue)
				err := s.update(func(tx store.Tx) error {
					place := s.place(tx, first)
					leases, _, err := s.scheduler.Claim(txNow, 100)
					if queue == "" {
						if len(leases) != 1 || leases[0].ID != second.ID {
							t.Errorf("%d claims, %v, want one of the second message", len(leases), err)
						}
					} else if len(leases) != 0 {
						t.Errorf("%d claims, want none", len(leases))
					}
					if result != nil {
						place.DueAt = txNow.Add(time.Hour)
						tx.Save(first, place)
					}
					return result
				})
				if !errors.Is(err, result) {
					t.Error(err)
				}
				s.wantNoHolds()
				s.claimOf(first)
			})
		}
	}
}

// inOneCommit runs updates as operations of one commit, in order, and returns their errors.
func (t *txTest) inOneCommit(changes ...func(store.Tx) error) []error {
	t.Helper()
	goOn := make(chan struct{})
	if err := t.writer.post(t.Context(), func(*commit) error { <-goOn; return nil }); err != nil {
		t.Fatal(err)
	}
	for len(t.writer.ops) > 0 {
		time.Sleep(time.Millisecond)
	}
	errs := make([]error, len(changes))
	var wg sync.WaitGroup
	for i, change := range changes {
		wg.Go(func() { errs[i] = t.update(change) })
		for len(t.writer.ops) <= i {
			time.Sleep(time.Millisecond)
		}
	}
	close(goOn)
	wg.Wait()
	return errs
}

// TestUpdatesOfOneCommit has operations of one commit see what those before them wrote: a message
// that is accepted, delayed, looked at, made due, and claimed in the end.
func TestUpdatesOfOneCommit(t *testing.T) {
	s := newTxTest(t)
	m := s.newMessage("")
	due := func(at time.Time) func(store.Tx) error {
		return func(tx store.Tx) error {
			place := s.place(tx, m)
			place.DueAt, place.Order = at, posthaste.FirstPosition(at)
			tx.Save(m, place)
			return nil
		}
	}
	errs := s.inOneCommit(
		func(tx store.Tx) error { acceptIn(tx, m); return nil },
		due(txNow.Add(time.Hour)),
		func(tx store.Tx) error {
			if place := s.place(tx, m); !place.DueAt.Equal(txNow.Add(time.Hour)) {
				t.Errorf("due at %v", place.DueAt)
			}
			if read, err := tx.Message(m.ID); err != nil || read.URL != m.URL {
				t.Errorf("Message: %v, %v", read, err)
			}
			if leases, _, _ := s.scheduler.Claim(txNow.Add(2*time.Hour), 100); len(leases) > 0 {
				t.Error("claimed before it was durable")
			}
			return errRefused
		},
		due(txNow),
	)
	if want := []error{nil, nil, errRefused, nil}; !slices.Equal(errs, want) {
		t.Errorf("errors %v, want %v", errs, want)
	}
	s.wantNoHolds()
	s.claimOf(m)
}

// TestUpdatesOfOneClaim has operations of one commit request the cancellation of a claimed message,
// give its claim up, end it, and look at it.
func TestUpdatesOfOneClaim(t *testing.T) {
	s := newTxTest(t)
	m := s.accept("q")
	claim := s.claimOf(m)[0]
	errs := s.inOneCommit(
		func(tx store.Tx) error {
			place := s.place(tx, m)
			if place.Lease != claim.Lease {
				t.Errorf("lease %d, want %d", place.Lease, claim.Lease)
			}
			place.CancelRequested = true
			tx.Save(m, place)
			return nil
		},
		func(tx store.Tx) error {
			place := s.place(tx, m)
			if place.Lease != claim.Lease || !place.CancelRequested {
				t.Errorf("place %+v, want a claimed one to be cancelled", *place)
			}
			place.Lease = 0
			tx.Save(m, place)
			return nil
		},
		func(tx store.Tx) error {
			place := s.place(tx, m)
			if !place.Waits() || !place.CancelRequested {
				t.Errorf("place %+v, want one that waits to be cancelled", *place)
			}
			place.State, place.CancelRequested = posthaste.StateCancelled, false
			tx.Save(m, place)
			return nil
		},
		func(tx store.Tx) error {
			if place := s.place(tx, m); place.State != posthaste.StateCancelled {
				t.Errorf("place %+v, want CANCELLED", *place)
			}
			return nil
		},
	)
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	s.wantNoHolds()
	s.claimOf()
	if n := s.scheduler.InFlight("ann"); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// TestClaimsRaceWithUpdates has messages claimed and delivered while transactions look at them,
// delay them, make them due and fail: each is delivered once, and nothing is left.
func TestClaimsRaceWithUpdates(t *testing.T) {
	const messages, updaters, rounds = 60, 4, 40
	s := newTxTest(t)
	var all []*posthaste.Message
	for i := range messages {
		all = append(all, s.accept([]string{"", "q", "r"}[i%3]))
	}
	var updates, deliveries sync.WaitGroup
	for u := range updaters {
		updates.Go(func() {
			for round := range rounds {
				m := all[(u*17+round*7)%messages]
				_ = s.update(func(tx store.Tx) error {
					place := s.place(tx, m)
					if !place.Waits() || round%4 == 0 {
						return nil
					}
					if m.Queue == "" {
						place.Order++
					}
					place.DueAt = txNow.Add(-time.Duration(round) * time.Second)
					tx.Save(m, place)
					if round%4 == 1 {
						return errRefused
					}
					return nil
				})
			}
		})
	}
	var mu sync.Mutex
	delivered := map[posthaste.MessageID]int{}
	deliver := func(claim store.Claim) {
		err := s.update(func(tx store.Tx) error {
			place := s.place(tx, claim.Message)
			if place.Lease != claim.Lease {
				return store.ErrLeaseLost
			}
			place.State, place.Lease = posthaste.StateDelivered, 0
			tx.Save(claim.Message, place)
			return nil
		})
		if err != nil {
			t.Errorf("deliver: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		delivered[claim.Message.ID]++
	}
	for range 2 {
		deliveries.Go(func() {
			for n, deadline := 0, time.Now().Add(time.Minute); time.Now().Before(deadline); n++ {
				claims, _, err := s.Claim(t.Context(), txNow, 3)
				if err != nil {
					t.Error(err)
				}
				for _, claim := range claims {
					if n++; n%5 == 0 {
						_ = s.Release(t.Context(), txNow, []store.Claim{claim})
					} else {
						deliver(claim)
					}
				}
				mu.Lock()
				done := len(delivered) == messages
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	updates.Wait()
	deliveries.Wait()
	for _, m := range all {
		if delivered[m.ID] != 1 {
			t.Errorf("%s was delivered %d times", m.ID, delivered[m.ID])
		}
	}
	s.wantNoHolds()
	if n := s.scheduler.InFlight("ann"); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// TestDeleteOfNames deletes many records at once whose names are as long as a position: others, whose
// names are shorter or longer, stay.
func TestDeleteOfNames(t *testing.T) {
	s := newTxTest(t)
	var gone, left []string
	for i := range 3 * postings.FewInARow {
		name := fmt.Sprintf("name%04d", i)
		gone, left = append(gone, name), append(left, name+"x")
	}
	left = append(left, "name1")
	none := store.Found{}
	err := s.update(func(tx store.Tx) error {
		for _, name := range slices.Concat(gone, left) {
			tx.Put(store.ItemURLGroup, []byte(name), []byte("value"), none, none)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.update(func(tx store.Tx) error {
		for _, name := range gone {
			tx.Delete(store.ItemURLGroup, []byte(name), none)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	err = s.View(t.Context(), store.Scope{User: "ann"}, func(r store.Reader) error {
		_, err := r.Scan(store.ItemURLGroup, nil, nil, 1000, func(key, _ []byte) error {
			names = append(names, string(key))
			return nil
		})
		return err
	})
	if slices.Sort(left); err != nil || !slices.Equal(names, left) {
		t.Errorf("left: %q, %v, want %q", names, err, left)
	}
}
