package lsm

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
)

// Claim implements store.Backend.
func (s *Store) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	done, err := s.hold()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	leases, next, err := s.scheduler.Claim(now, limit)
	claims := make([]store.Claim, 0, len(leases))
	var begun []*posthaste.Message
	windows := map[flowKeyID]bool{} // in which they were counted
	for _, held := range leases {
		m, readErr := s.loadMessage(held)
		if readErr != nil {
			s.unreadable.add(appendMessageKey(nil, segmentEnvelope, held.User(), held.ID), readErr)
			s.scheduler.DropUnreadable(held)
			err = errors.Join(err, readErr)
			continue
		}
		claims = append(claims, store.Claim{
			Message:         m,
			Retried:         held.Waiting.Retried,
			Lease:           held.Token,
			CancelRequested: held.Waiting.CancelRequested,
		})
		if held.Waiting.CancelRequested {
			continue
		}
		begun = append(begun, m)
		if key := held.Waiting.FlowKey; key != "" {
			windows[flowKeyID{s.KeyHome(m.User, key), key}] = true
		}
	}
	if len(begun) > 0 {
		err = errors.Join(err, s.writer.post(ctx, func(c *commit) error { return s.begin(c, now, begun, windows) }))
	}
	return claims, next, err
}

// flowKeyID names a flow-control key of a user.
type flowKeyID struct{ user, name string }

// begin logs claimed messages as ACTIVE and saves the windows of their flow-control keys. It may come
// after some were released.
func (s *Store) begin(c *commit, now time.Time, begun []*posthaste.Message, windows map[flowKeyID]bool) error {
	for key := range windows {
		if err := s.saveWindow(c, key.user, key.name); err != nil {
			return err
		}
	}
	for _, m := range begun {
		c.event(m, now, posthaste.Event{MessageID: m.ID, State: posthaste.StateActive})
	}
	return nil
}

// loadMessage returns the message of a claim, and reads it if it is not in memory.
func (s *Store) loadMessage(held *lanes.Lease) (*posthaste.Message, error) {
	if held.Message != nil {
		return held.Message, nil
	}
	m, err := readMessage(s.db, held.User(), held.ID)
	if err == nil {
		s.scheduler.SetMessage(held, m)
	}
	return m, err
}

// Wake implements store.Backend.
func (s *Store) Wake() <-chan struct{} { return s.scheduler.Wake() }

// Release implements store.Backend. Like all that ends claims it is an operation of the writer. It is
// not refused while the disk does not answer: nobody else would give the claims up.
func (s *Store) Release(ctx context.Context, _ time.Time, claims []store.Claim) error {
	release := func(*commit) error {
		for _, claim := range claims {
			s.scheduler.Release(claim.Message.ID, claim.Lease)
		}
		return nil
	}
	return s.writer.await(ctx, &op{apply: release, result: make(chan error, 1)}, nil)
}
