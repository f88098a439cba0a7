package postgres

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Settle implements store.Worker.
func (s *Store) Settle(ctx context.Context, now time.Time, settlement store.Settlement) error {
	m := settlement.Claim.Message
	err := s.callWith(ctx, now, []string{m.User}, prefetchFor([]store.Claim{settlement.Claim}), func(tx *tx) error {
		l, err := tx.claimed(settlement.Claim)
		if err != nil {
			return err
		}
		return tx.settle(m, l, settlement.Resolve(l.cancelRequested))
	})
	if err == nil || errors.Is(err, store.ErrLeaseLost) {
		s.held.remove(settlement.Claim)
	}
	return err
}

// settle ends a claim. A message of a run never enters the DLQ of messages: its run
// enters that of runs.
func (tx *tx) settle(m *posthaste.Message, l *liveMessage, settlement store.Settlement) error {
	runs := tx.runTx(m.User)
	runs.settling = m.ID
	if settlement.UpdateRun != nil {
		if err := settlement.UpdateRun(runs, &settlement); err != nil {
			return err
		}
	}
	settlement.NotifySettled()
	events := settlement.Events()
	failedAt := posthaste.DeadLetterID(tx.peek(len(events)))
	var callbacks []*posthaste.Message
	if settlement.Callbacks != nil {
		var err error
		if callbacks, err = settlement.Callbacks(failedAt); err != nil {
			return err
		}
	}
	for _, event := range events {
		tx.event(m, event)
	}
	if settlement.State == posthaste.StateFailed && m.Run == nil {
		tx.addToDLQ(&posthaste.DeadLetter{ID: failedAt, Message: m, Error: settlement.Error, Response: settlement.Response})
	}
	if l.lane.strict() {
		l.callbacks += len(callbacks)
	}
	if err := tx.enqueueRetry(m, l, settlement); err != nil {
		return err
	}
	if err := tx.accept(callbacks); err != nil {
		return err
	}
	return runs.write()
}

// place writes where a settled message stands.
func (tx *tx) enqueueRetry(m *posthaste.Message, l *liveMessage, settlement store.Settlement) error {
	l.state, l.lease = settlement.State, 0
	if l.state != posthaste.StateRetry {
		return tx.end(m, l)
	}
	l.retried++
	l.dueMS = settlement.NextAt.UnixMilli()
	if !l.lane.strict() {
		l.place = posthaste.FirstPosition(settlement.NextAt)
	}
	tx.save(l)
	tx.touch(l.lane, 0)
	tx.wakeBlocked(l)
	return nil
}
