package lsm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Accept implements store.Acceptor.
func (s *Store) Accept(ctx context.Context, now time.Time, messages []*posthaste.Message) error {
	envelopes := make([][]byte, len(messages))
	for i, m := range messages {
		if len(m.User) > maxUserLen {
			return fmt.Errorf("user id of %d bytes: at most %d fit", len(m.User), maxUserLen)
		}
		envelopes[i] = encodeEnvelope(m)
	}
	return s.writer.do(ctx, func(c *commit) error {
		for i, m := range messages {
			s.accept(c, now, m, envelopes[i])
		}
		return nil
	})
}

func (s *Store) accept(c *commit, now time.Time, m *posthaste.Message, envelope []byte) {
	c.set(appendMessageKey(c.key(), segmentEnvelope, m.User, m.ID), envelope)
	if len(m.Body) >= largeBody {
		c.set(appendMessageKey(c.key(), segmentBody, m.User, m.ID), m.Body)
	}
	c.event(m, now, store.Created(m))
	s.enqueue(c, m, status{state: posthaste.StateCreated, dueMS: m.NotBefore.UnixMilli()})
}

// enqueue writes that a message waits, and adds it to its lane when that is
// durable.
func (s *Store) enqueue(c *commit, m *posthaste.Message, st status) {
	lane := laneID{m.User, m.Lane()}
	it := newItem(m, st)
	c.setStatus(m, st)
	c.set(appendWaitingKey(c.key(), lane, it.ticket), st.waiting.append(nil))
	c.after(func() { s.scheduler.add(lane, it) })
}

func newItem(m *posthaste.Message, st status) *item {
	return &item{ticket: ticket{st.dueMS, m.ID}, message: m, waiting: st.waiting}
}

func encodeEnvelope(m *posthaste.Message) []byte {
	if len(m.Body) < largeBody {
		return record.AppendMessage(nil, m)
	}
	bare := *m
	bare.Body = nil
	return record.AppendMessage(nil, &bare)
}

// Claim implements store.Worker.
func (s *Store) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	done, err := s.reading()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	leases, next, err := s.scheduler.claim(now, limit)
	claims := make([]store.Claim, 0, len(leases))
	var cancelled []*lease
	for _, held := range leases {
		if readErr := s.loadMessage(held.item); readErr != nil {
			s.scheduler.endSettle(held, nil)
			err = errors.Join(err, readErr)
			continue
		}
		if held.cancelRequested {
			cancelled = append(cancelled, held)
			continue
		}
		claims = append(claims, held.claim())
	}
	if len(claims) > 0 || len(cancelled) > 0 {
		err = errors.Join(err, s.writer.post(ctx, func(c *commit) error {
			for _, claim := range claims {
				c.event(claim.Message, now, posthaste.Event{MessageID: claim.Message.ID, State: posthaste.StateActive})
			}
			s.finishCancelled(c, now, cancelled)
			return nil
		}))
	}
	return claims, next, err
}

// loadMessage reads the envelope of a message that is not in memory.
func (s *Store) loadMessage(it *item) (err error) {
	if it.message == nil {
		it.message, err = readMessage(s.db, it.lane.id.user, it.id)
	}
	return err
}

func (l *lease) claim() store.Claim {
	return store.Claim{Message: l.message, Retried: l.waiting.retried, Lease: l.token}
}

// Wake implements store.Worker.
func (s *Store) Wake() <-chan struct{} { return s.scheduler.wake }

// Settle implements store.Worker.
func (s *Store) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	return s.writer.do(ctx, func(c *commit) error {
		held := s.scheduler.beginSettle(settlement.Claim.Message.ID, settlement.Claim.Lease)
		if held == nil {
			return store.ErrLeaseLost
		}
		s.settle(c, now, held, settlement.Resolve(held.cancelRequested))
		return nil
	})
}

func (s *Store) settle(c *commit, now time.Time, held *lease, settlement store.Settlement) {
	m := held.message
	for _, event := range settlement.Events() {
		c.event(m, now, event)
	}
	lane := held.lane.id
	c.delete(appendWaitingKey(c.key(), lane, held.ticket))
	if settlement.State != posthaste.StateRetry {
		c.setStatus(m, status{state: settlement.State, waiting: held.waiting})
		c.after(func() { s.scheduler.endSettle(held, nil) })
		return
	}
	st := status{
		state:   posthaste.StateRetry,
		dueMS:   settlement.NextAt.UnixMilli(),
		waiting: waiting{retried: held.waiting.retried + 1},
	}
	again := newItem(m, st)
	c.setStatus(m, st)
	c.set(appendWaitingKey(c.key(), lane, again.ticket), st.waiting.append(nil))
	c.after(func() { s.scheduler.endSettle(held, again) })
}

// Release implements store.Worker.
func (s *Store) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	var cancelled []*lease
	for _, claim := range claims {
		if held := s.scheduler.release(claim.Message.ID, claim.Lease); held != nil {
			cancelled = append(cancelled, held)
		}
	}
	if len(cancelled) == 0 {
		return nil
	}
	return s.writer.do(ctx, func(c *commit) error {
		s.finishCancelled(c, now, cancelled)
		return nil
	})
}

// finishCancelled ends claimed messages whose cancellation was asked for.
func (s *Store) finishCancelled(c *commit, now time.Time, cancelled []*lease) {
	for _, held := range cancelled {
		s.endCancelled(c, now, held.message, held.lane.id, status{dueMS: held.dueMS, waiting: held.waiting})
		c.after(func() { s.scheduler.endSettle(held, nil) })
	}
}

// endCancelled writes that a waiting message is cancelled.
func (s *Store) endCancelled(c *commit, now time.Time, m *posthaste.Message, lane laneID, st status) {
	c.event(m, now, posthaste.Event{MessageID: m.ID, State: posthaste.StateCancelled})
	c.delete(appendWaitingKey(c.key(), lane, ticket{st.dueMS, m.ID}))
	c.setStatus(m, status{state: posthaste.StateCancelled, waiting: st.waiting})
}

// Cancel implements store.Canceller.
func (s *Store) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID) ([]posthaste.MessageID, error) {
	var changed []posthaste.MessageID
	err := s.writer.do(ctx, func(c *commit) error {
		candidates, err := s.cancellable(c, user, ids)
		if err != nil {
			return err
		}
		for _, candidate := range candidates {
			s.cancel(c, now, candidate)
			changed = append(changed, candidate.message.ID)
		}
		return nil
	})
	return changed, err
}

// cancellable reads the messages among ids that can still be cancelled, each
// once. It only reads, so that an error leaves nothing behind.
func (s *Store) cancellable(c *commit, user string, ids []posthaste.MessageID) ([]candidate, error) {
	var found []candidate
	seen := map[posthaste.MessageID]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		st, err := c.status(user, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && (st.state.Terminal() || st.cancelRequested) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m, err := readMessage(s.db, user, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("%w: no envelope", errCorrupt)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, candidate{m, st})
	}
	return found, nil
}

// candidate is a message to be cancelled.
type candidate struct {
	message *posthaste.Message
	status  status
}

func (s *Store) cancel(c *commit, now time.Time, target candidate) {
	m, st := target.message, target.status
	lane := laneID{m.User, m.Lane()}
	c.event(m, now, posthaste.Event{MessageID: m.ID, State: posthaste.StateCancelRequested})
	if claimed := s.scheduler.hold(lane, ticket{st.dueMS, m.ID}); claimed {
		st.cancelRequested = true
		c.setStatus(m, st)
		c.set(appendWaitingKey(c.key(), lane, ticket{st.dueMS, m.ID}), st.waiting.append(nil))
		return
	}
	s.endCancelled(c, now, m, lane, st)
	c.after(func() { s.scheduler.unhold(m.ID) })
}

// Message implements store.Reader.
func (s *Store) Message(_ context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	done, err := s.reading()
	if err != nil {
		return store.Status{}, err
	}
	defer done()
	st, err := readStatus(s.db, user, id)
	if err != nil {
		return store.Status{}, err
	}
	m, err := readMessage(s.db, user, id)
	if err != nil {
		return store.Status{}, err
	}
	status := store.Status{Message: m, State: st.state, Retried: st.retried}
	switch {
	case st.state.Terminal():
	case s.scheduler.claimed(id):
		status.State = posthaste.StateActive
	default:
		status.NextAttemptAt = milliTime(st.dueMS)
	}
	return status, nil
}
