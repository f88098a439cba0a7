package lsm

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Cancel implements store.Canceller.
func (s *Store) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *store.Step) ([]posthaste.MessageID, error) {
	var changed []posthaste.MessageID
	err := s.writer.do(ctx, func(c *commit) error {
		targets, err := s.cancellableAlone(c, user, ids)
		if err != nil {
			return err
		}
		if err := advance(c, user, step, len(targets), nil); err != nil {
			return err
		}
		for _, target := range targets {
			s.cancel(c, now, target, true)
			changed = append(changed, target.message.ID)
		}
		return nil
	})
	return answer(&changed, err)
}

// target is a message to be cancelled.
type target struct {
	message *posthaste.Message
	status  status
	ended   func() // what its end means for the message it is a callback of
}

// cancellable reads those of the messages that can be read and still be cancelled, each once.
func (s *Store) cancellable(c *commit, user string, ids []posthaste.MessageID) ([]target, error) {
	var found []target
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
		m, err := c.message(user, id)
		if s.passedOver(user, id, err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := s.newTarget(c, m, st)
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	return found, nil
}

// cancellableAlone leaves out messages of runs, which end with their run.
func (s *Store) cancellableAlone(c *commit, user string, ids []posthaste.MessageID) ([]target, error) {
	found, err := s.cancellable(c, user, ids)
	return slices.DeleteFunc(found, func(t target) bool { return t.message.Run != nil }), err
}

func (s *Store) newTarget(c *commit, m *posthaste.Message, st status) (target, error) {
	after := st
	after.state = posthaste.StateCancelled
	ended, err := s.callbackEnded(c, m, after)
	return target{message: m, status: st, ended: ended}, err
}

// cancel asks for a cancellation, and grants it unless the message is claimed: one
// in flight is left alone unless inFlight says otherwise.
func (s *Store) cancel(c *commit, now time.Time, t target, inFlight bool) {
	m, st := t.message, t.status
	place := ticket{st.order, m.ID}
	claimed := s.scheduler.hold(laneOf(m), place, inFlight)
	if claimed && !inFlight {
		return
	}
	c.event(m, now, posthaste.Event{MessageID: m.ID, State: posthaste.StateCancelRequested})
	if claimed {
		st.cancelRequested = true
		c.setStatus(m, st)
		c.set(appendWaitingKey(c.key(), laneOf(m), place), st.waiting.append(nil))
		return
	}
	s.endCancelled(c, now, t)
	c.after(func() { s.scheduler.move(laneOf(m), place, nil) })
}

// endCancelled writes that a waiting message is cancelled.
func (s *Store) endCancelled(c *commit, now time.Time, t target) {
	m, st := t.message, t.status
	c.event(m, now, posthaste.Event{MessageID: m.ID, State: posthaste.StateCancelled})
	c.delete(appendWaitingKey(c.key(), laneOf(m), ticket{st.order, m.ID}))
	st.state, st.cancelRequested = posthaste.StateCancelled, false
	c.setStatus(m, st)
	t.ended()
}

// claimedStatus returns the status of a claimed message. That of one in a queue may
// have changed since it was claimed: by the end of a callback.
func (s *Store) claimedStatus(c *commit, held *lease) (status, error) {
	if held.lane.strict() {
		return c.status(held.message.User, held.id)
	}
	return status{order: held.order, waiting: held.waiting}, nil
}

// finishCancelled ends claimed messages whose cancellation was asked for.
func (s *Store) finishCancelled(c *commit, now time.Time, cancelled []*lease) error {
	targets := make([]target, len(cancelled))
	for i, held := range cancelled {
		st, err := s.claimedStatus(c, held)
		if err != nil {
			return err
		}
		if targets[i], err = s.newTarget(c, held.message, st); err != nil {
			return err
		}
	}
	for i, held := range cancelled {
		s.endCancelled(c, now, targets[i])
		c.after(func() { s.scheduler.endSettle(held, nil) })
	}
	return nil
}
