package postgres_test

import (
	"errors"
	"testing"

	"posthaste"
	"posthaste/internal/store"
)

// The connection is lost in the middle of a commit. The caller is told that the outcome
// is not known, the change took place whole or not at all, and the node goes on.
func TestAConnectionThatIsLostInACommit(t *testing.T) {
	direct := emptyDatabase(t)
	cutter, url := newCutter(t, direct)
	s := open(t, url)
	for name, c := range map[string]struct {
		// prepare returns the call that is cut, and what tells whether it took place.
		prepare func(*testing.T, *ruled) (call func() error, tookPlace func() (bool, error))
	}{
		"Accept":   {acceptance},
		"Claim":    {claim},
		"Settle":   {settlement},
		"Transact": {transaction},
	} {
		for moment, took := range map[int32]bool{beforeCommit: false, afterCommit: true} {
			t.Run(name+map[bool]string{false: ", before", true: ", after"}[took], func(t *testing.T) {
				call, tookPlace := c.prepare(t, s)
				cutter.armed.Store(moment)
				if err := call(); !errors.Is(err, store.ErrUnavailable) {
					t.Fatalf("the call that was cut returns %v, want store.ErrUnavailable", err)
				}
				if did, err := tookPlace(); err != nil || did != took {
					t.Errorf("it took place: %t, %v, want %t", did, err, took)
				}
			})
		}
	}
}

// What was to be given back while the database was away, by a node that did not lapse for
// that, is given back when it answers again.
func TestAReleaseThatFails(t *testing.T) {
	cutter, url := newCutter(t, emptyDatabase(t))
	s := open(t, url)
	m := accept(t, s, start)
	claim := claimOne(t, s, m)
	cutter.armed.Store(beforeCommit)
	if err := s.Release(t.Context(), start, []store.Claim{claim}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Release = %v, want ErrUnavailable", err)
	}
	settle(t, s, store.Delivered(claimOne(t, s, m)))
}

func acceptance(t *testing.T, s *ruled) (call func() error, tookPlace func() (bool, error)) {
	m := newMessage(start)
	return func() error { return acceptOne(t.Context(), s, m) }, func() (bool, error) {
		_, err := s.Message(t.Context(), ann, m.ID)
		if errors.Is(err, store.ErrNotFound) {
			return false, acceptOne(t.Context(), s, m)
		}
		return true, err
	}
}

// claim is of a message that is then claimed again, also when this node has got it
// without knowing.
func claim(t *testing.T, s *ruled) (call func() error, tookPlace func() (bool, error)) {
	settleAll(t, s)
	m := accept(t, s, start)
	return func() error {
			_, _, err := s.Claim(t.Context(), start, 10)
			return err
		}, func() (bool, error) {
			settle(t, s, store.Delivered(claimOne(t, s, m)))
			const needed = 3 // CREATED ACTIVE DELIVERED
			return len(statesOf(t, s, m)) > needed, nil
		}
}

func settlement(t *testing.T, s *ruled) (call func() error, tookPlace func() (bool, error)) {
	settleAll(t, s)
	delivered := store.Delivered(claimOne(t, s, accept(t, s, start)))
	settle := func() error {
		_, err := s.Settle(t.Context(), start, delivered)
		return err
	}
	return settle, func() (bool, error) {
		err := settle() // as the engine does
		if errors.Is(err, store.ErrLeaseLost) {
			return true, nil
		}
		return false, err
	}
}

func transaction(t *testing.T, s *ruled) (call func() error, tookPlace func() (bool, error)) {
	const key = "key"
	id := newMessage(start).ID.String()
	return func() error {
			return s.Transact(t.Context(), start, ann, func(tx store.RunTx) error {
				tx.CacheResponse(key+id, []byte("answer"))
				return nil
			})
		}, func() (kept bool, err error) {
			err = s.Transact(t.Context(), start, ann, func(tx store.RunTx) error {
				answer, err := tx.CachedResponse(key + id)
				kept = answer != nil
				return err
			})
			return kept, err
		}
}

// settleAll settles whatever waits.
func settleAll(t *testing.T, s store.Store) {
	t.Helper()
	claims, _, err := s.Claim(t.Context(), start, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		settle(t, s, store.Delivered(c))
	}
}

// statesOf returns the states of a message's events, oldest first.
func statesOf(t *testing.T, s store.Store, m *posthaste.Message) (states []posthaste.State) {
	t.Helper()
	page, err := store.ReadEvents(t.Context(), s, ann, store.EventQuery{
		Filter: posthaste.Filter{MessageIDs: []posthaste.MessageID{m.ID}},
		High:   posthaste.MaxPosition, OldestFirst: true, Limit: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		states = append(states, e.State)
	}
	return states
}
