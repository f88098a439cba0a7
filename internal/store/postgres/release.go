package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste/internal/store"
)

// Release implements store.Backend. Claims that cannot be released now are released later.
func (s *Store) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	defer s.held.remove(claims...) // after the commit, as with Settle
	claims = slices.DeleteFunc(slices.Clone(claims), func(c store.Claim) bool { return c.Held != nil && c.Held.Err() != nil })
	if len(claims) == 0 {
		return nil // they end with this node's number
	}
	err := s.call(ctx, now, column(claims, func(c store.Claim) string { return c.Message.User }), prefetch{live: column(claims, claimedMessage)}, func(tx *tx) error { return tx.releaseAll(claims) })
	if err != nil {
		s.held.doubt(claims)
	}
	return err
}

func claimedMessage(c store.Claim) messageOf { return messageOf{c.Message.User, c.Message.ID} }

func (tx *tx) releaseAll(claims []store.Claim) error {
	for _, claim := range claims {
		l, err := tx.claimed(claim)
		if errors.Is(err, store.ErrLeaseLost) {
			continue
		}
		if err != nil {
			return err
		}
		tx.release(l)
	}
	return nil
}

// claimed returns the row of a claimed message, or store.ErrLeaseLost for a claim that is not
// current.
func (tx *tx) claimed(claim store.Claim) (*liveMessage, error) {
	l, err := tx.live(claim.Message.User, claim.Message.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && (l.lease == 0 || uint64(l.lease) != claim.Lease) {
		return nil, store.ErrLeaseLost
	}
	return l, err
}

// release ends a lease without a result.
func (tx *tx) release(l *liveMessage) {
	l.lease = 0
	tx.save(l)
	tx.touch(l.lane, 0)
	tx.wakeBlocked(l)
}
