package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Release implements store.Worker. Claims that it could not give back are given back later:
// the caller has forgotten them, and the node may live on.
func (s *Store) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	defer s.held.remove(claims...) // after the commit, as with Settle
	claims = slices.DeleteFunc(slices.Clone(claims), func(c store.Claim) bool { return c.Held != nil && c.Held.Err() != nil })
	if len(claims) == 0 {
		return nil // they end with this node's number
	}
	err := s.callWith(ctx, now, usersOf(claims), prefetchFor(claims), func(tx *tx) error { return tx.releaseAll(claims) })
	if err != nil {
		s.inDoubt.add(claims)
	}
	return err
}

// wantsOf is what the end of claims asks for: where their messages stand, and those that
// they are callbacks of.
func prefetchFor(claims []store.Claim) (w prefetch) {
	for _, claim := range claims {
		m := claim.Message
		w.live = append(w.live, messageOf{m.User, m.ID})
		if !m.SourceID.IsZero() {
			w.live = append(w.live, messageOf{m.User, m.SourceID})
		}
	}
	return w
}

func usersOf(claims []store.Claim) []string {
	users := make([]string, len(claims))
	for i, claim := range claims {
		users[i] = claim.Message.User
	}
	return users
}

func (tx *tx) releaseAll(claims []store.Claim) error {
	for _, claim := range claims {
		l, err := tx.claimed(claim)
		if errors.Is(err, store.ErrLeaseLost) {
			continue
		}
		if err != nil {
			return err
		}
		if err := tx.release(l); err != nil {
			return err
		}
	}
	return nil
}

// claimed returns where a claimed message stands, or store.ErrLeaseLost if the claim
// is not its current one.
func (tx *tx) claimed(claim store.Claim) (*liveMessage, error) {
	l, err := tx.live(claim.Message.User, claim.Message.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && (l.lease == 0 || uint64(l.lease) != claim.Lease) {
		return nil, store.ErrLeaseLost
	}
	return l, err
}

// release ends a lease without a result.
func (tx *tx) release(l *liveMessage) error {
	l.lease = 0
	if l.cancelRequested {
		return tx.endCancelled(l)
	}
	tx.save(l)
	tx.touch(l.lane, 0)
	tx.wakeBlocked(l)
	return nil
}

// endCancelled grants a cancellation.
func (tx *tx) endCancelled(l *liveMessage) error {
	m, err := tx.message(l.user, l.id)
	if err != nil {
		return err
	}
	tx.event(m, posthaste.Event{MessageID: l.id, State: posthaste.StateCancelled})
	l.state = posthaste.StateCancelled
	return tx.end(m, l)
}

// unsure are claims of which this node does not know whether they were committed, or given
// back. Nobody works on them, and the node goes on living, so it has to give them back.
type inDoubtClaims struct {
	mu     sync.Mutex
	claims map[uint64]store.Claim // by lease
}

func (u *inDoubtClaims) add(claims []store.Claim) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.claims == nil {
		u.claims = map[uint64]store.Claim{}
	}
	for _, claim := range claims {
		u.claims[claim.Lease] = claim
	}
}

func (u *inDoubtClaims) has(lease uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, there := u.claims[lease]
	return there
}

func (u *inDoubtClaims) any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.claims) > 0
}

func (u *inDoubtClaims) take() map[uint64]store.Claim {
	u.mu.Lock()
	defer u.mu.Unlock()
	claims := u.claims
	u.claims = nil
	return claims
}

// giveBackUnsure releases claims of which it is not known whether they are any. Once more
// does no harm: no two claims have the same lease.
func (s *Store) releaseInDoubt(ctx context.Context, now time.Time) error {
	of := map[string][]store.Claim{}
	for _, claim := range s.inDoubt.take() {
		of[claim.Message.User] = append(of[claim.Message.User], claim)
	}
	users := slices.Sorted(maps.Keys(of))
	left, err := s.forEachUser(ctx, now, users, func(tx *tx, user string) error { return tx.releaseAll(of[user]) })
	for _, user := range left {
		s.inDoubt.add(of[user])
	}
	if err != nil {
		err = fmt.Errorf("give back claims: %w", err)
	}
	return err
}
