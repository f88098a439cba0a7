package lsm

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Claim implements store.Worker.
func (s *Store) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	done, err := s.hold()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	leases, next, err := s.scheduler.claim(now, limit)
	claims := make([]store.Claim, 0, len(leases))
	var begun []*lease
	for _, held := range leases {
		if readErr := s.loadMessage(held); readErr != nil {
			s.unreadable.add(appendMessageKey(nil, segmentEnvelope, held.lane.id.user, held.id), readErr)
			s.scheduler.dropUnreadable(held)
			err = errors.Join(err, readErr)
			continue
		}
		claims = append(claims, store.Claim{
			Message:         held.message,
			Retried:         held.waiting.retried,
			Lease:           held.token,
			CancelRequested: held.waiting.cancelRequested,
		})
		if !held.waiting.cancelRequested {
			begun = append(begun, held)
		}
	}
	if len(begun) > 0 {
		messages := each(begun, func(held *lease) *posthaste.Message { return held.message })
		err = errors.Join(err, s.writer.post(ctx, func(c *commit) error { return s.begin(c, now, begun, messages) }))
	}
	return claims, next, err
}

// begin logs claimed messages as ACTIVE and keeps count of their rates. It may come after
// some were released, which may have dropped their messages from memory.
func (s *Store) begin(c *commit, now time.Time, begun []*lease, messages []*posthaste.Message) error {
	for _, held := range begun {
		if err := s.countAttempt(c, held); err != nil {
			return err
		}
	}
	for _, m := range messages {
		c.event(m, now, posthaste.Event{MessageID: m.ID, State: posthaste.StateActive})
	}
	return nil
}

// loadMessage reads the envelope of a message that is not in memory.
func (s *Store) loadMessage(held *lease) error {
	if held.message != nil {
		return nil
	}
	m, err := readMessage(s.db, held.lane.id.user, held.id)
	if err == nil {
		s.scheduler.setMessage(held, m)
	}
	return err
}

// Wake implements store.Worker.
func (s *Store) Wake() <-chan struct{} { return s.scheduler.wake }

// Release implements store.Worker. Like all that ends claims it is an operation of the writer. It is
// not refused while the disk does not answer: nobody else would give the claims up.
func (s *Store) Release(ctx context.Context, _ time.Time, claims []store.Claim) error {
	release := func(*commit) error {
		for _, claim := range claims {
			s.scheduler.release(claim.Message.ID, claim.Lease)
		}
		return nil
	}
	return s.writer.await(ctx, &op{apply: release, result: make(chan error, 1)}, nil)
}

// InFlight implements store.Health.
func (s *Store) InFlight(_ context.Context, user string) (int, error) {
	return s.scheduler.inFlight(user), nil
}
