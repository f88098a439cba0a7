package lsm

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Settle implements store.Worker.
func (s *Store) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	return s.writer.do(ctx, func(c *commit) error {
		held := s.scheduler.beginSettle(settlement.Claim.Message.ID, settlement.Claim.Lease)
		if held == nil {
			return store.ErrLeaseLost
		}
		err := s.settle(c, now, held, settlement.Resolve(held.cancelRequested))
		if err != nil {
			s.scheduler.abortSettle(held)
		}
		return err
	})
}

// settle reads and makes all it needs before it writes anything. A message of a run
// never enters the DLQ of messages: its run enters that of runs.
func (s *Store) settle(c *commit, now time.Time, held *lease, settlement store.Settlement) error {
	m := held.message
	st, err := s.claimedStatus(c, held)
	if err != nil {
		return err
	}
	tx, err := s.conclude(c, now, &settlement)
	if err != nil {
		return err
	}
	settlement.NotifySettled()
	events := settlement.Events()
	failedAt := posthaste.DeadLetterID(c.peek(now, len(events)))
	callbacks, err := s.makeCallbacks(c, settlement, failedAt)
	if err != nil {
		return err
	}
	st.state, st.cancelRequested = settlement.State, false
	if held.lane.strict() {
		st.callbacks += len(callbacks.Messages)
	}
	ended, err := s.callbackEnded(c, m, st)
	if err != nil {
		return err
	}

	for _, event := range events {
		c.event(m, now, event)
	}
	if st.state == posthaste.StateFailed && m.Run == nil {
		s.addToDLQ(c, &posthaste.DeadLetter{ID: failedAt, Message: m, Error: settlement.Error, Response: settlement.Response})
	}
	s.accept(c, now, &callbacks)
	again := s.place(c, held, st, settlement.NextAt)
	c.after(func() { s.scheduler.endSettle(held, again) })
	ended()
	if tx != nil {
		tx.write()
	}
	return nil
}

// conclude lets the rules of runs decide what a settlement means for one. It
// returns nil if there are none to be asked.
func (s *Store) conclude(c *commit, now time.Time, settlement *store.Settlement) (*runTx, error) {
	if settlement.UpdateRun == nil {
		return nil, nil
	}
	m := settlement.Claim.Message
	tx := s.newRunTx(c, now, m.User)
	tx.settling = m.ID
	if err := settlement.UpdateRun(tx, settlement); err != nil {
		return nil, err
	}
	return tx, tx.seal()
}

// claimedStatus returns the status of a claimed message. That of one in a queue may
// have changed since it was claimed: by the end of a callback.
func (s *Store) claimedStatus(c *commit, held *lease) (status, error) {
	if held.lane.strict() {
		return c.status(held.message.User, held.id)
	}
	return status{order: held.order, waiting: held.waiting}, nil
}

// makeCallbacks makes the messages that tell of a settlement.
func (s *Store) makeCallbacks(c *commit, settlement store.Settlement, id posthaste.DeadLetterID) (arrival, error) {
	if settlement.Callbacks == nil {
		return arrival{}, nil
	}
	messages, err := settlement.Callbacks(id)
	if err != nil {
		return arrival{}, err
	}
	return s.newMessages(c, messages)
}

// place writes where a settled message stands. It returns it as it waits again:
// for its next attempt, or, in a queue, for its callbacks to end. It returns nil
// when nothing waits any more.
func (s *Store) place(c *commit, held *lease, st status, next time.Time) *item {
	lane, old := held.lane.id, held.ticket
	if st.state == posthaste.StateRetry {
		st.retried, st.readyMS = st.retried+1, next.UnixMilli()
		if !held.lane.strict() {
			st.order = posthaste.FirstPosition(next)
		}
	} else {
		st.ended = held.lane.strict() && st.callbacks > 0
	}
	c.setStatus(held.message, st)
	if st.state.Terminal() && !st.ended {
		c.delete(appendWaitingKey(c.key(), lane, old))
		return nil
	}
	again := newItem(held.message, st)
	if again.ticket != old {
		c.delete(appendWaitingKey(c.key(), lane, old))
	}
	c.set(appendWaitingKey(c.key(), lane, again.ticket), st.waiting.append(nil))
	return again
}

// callbackEnded returns what is to be written when a message with status st has
// ended that is the callback of another: the other is one callback nearer to
// giving up its slot.
func (s *Store) callbackEnded(c *commit, m *posthaste.Message, st status) (write func(), err error) {
	nothing := func() {}
	if m.SourceID.IsZero() || !st.state.Terminal() {
		return nothing, nil
	}
	source, err := c.status(m.User, m.SourceID)
	if errors.Is(err, store.ErrNotFound) || err == nil && source.callbacks == 0 {
		return nothing, nil
	}
	if err != nil {
		return nil, err
	}
	envelope, err := c.message(m.User, m.SourceID)
	if err != nil {
		return nil, err
	}
	return func() { s.countCallback(c, envelope) }, nil
}

// countCallback counts one callback of a source as ended. The source's status has
// been read before, and may have changed since: it may end in the same operation.
func (s *Store) countCallback(c *commit, source *posthaste.Message) {
	st, err := c.status(source.User, source.ID)
	if err != nil || st.callbacks == 0 {
		return
	}
	lane, place := laneOf(source), ticket{st.order, source.ID}
	st.callbacks--
	switch {
	case st.ended && st.callbacks == 0:
		st.ended = false
		c.delete(appendWaitingKey(c.key(), lane, place))
		c.after(func() { s.scheduler.drop(lane, place) })
	case st.ended || !st.state.Terminal():
		c.set(appendWaitingKey(c.key(), lane, place), st.waiting.append(nil))
	}
	c.setStatus(source, st)
}
