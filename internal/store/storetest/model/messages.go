package model

import (
	"context"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Accept implements store.Store.
func (m *Model) Accept(_ context.Context, now time.Time, submissions []store.Submission) (accepted []store.Accepted, err error) {
	err = m.change(func() error {
		for _, s := range submissions {
			accepted = append(accepted, m.submit(now, s))
		}
		return nil
	})
	return accepted, err
}

func (m *Model) submit(now time.Time, s store.Submission) store.Accepted {
	ids := s.IDs()
	if s.DedupKey != "" {
		key := name{s.Messages[0].User, s.DedupKey}
		earlier, ok := m.submissions[key]
		if ok && now.Sub(earlier.at) < store.DedupWindow && !m.undelivered(key.user, earlier.ids) {
			return store.Accepted{IDs: earlier.ids, Deduplicated: true}
		}
		m.submissions[key] = submission{now, ids}
	}
	m.accept(now, s.Messages)
	return store.Accepted{IDs: ids}
}

// undelivered reports whether all of some messages have ended without delivery.
func (m *Model) undelivered(user string, ids []posthaste.MessageID) bool {
	return !slices.ContainsFunc(ids, func(id posthaste.MessageID) bool {
		l := m.find(user, id)
		return l == nil || !store.Undelivered(l.state)
	})
}

func (m *Model) accept(now time.Time, messages []*posthaste.Message) {
	for _, message := range messages {
		l := &life{message: message, state: posthaste.StateCreated, dueAt: message.NotBefore}
		m.lives = append(m.lives, l)
		l.createdAt = m.append(now, l, store.Created(message))
		m.follow(now, message)
	}
}

// follow makes the queue a message names, and the flow-control key, which follows
// the message's limits.
func (m *Model) follow(now time.Time, message *posthaste.Message) {
	if queue := (name{message.User, message.Queue}); queue.name != "" && m.queues.all[queue] == nil {
		m.queues.all[queue] = &posthaste.Queue{
			Name: queue.name, Parallelism: posthaste.DefaultParallelism, CreatedAt: now, UpdatedAt: now,
		}
	}
	if id := (name{message.User, message.FlowControl.Key}); id.name != "" {
		key := m.flowKeys.all[id]
		if key == nil {
			key = &posthaste.FlowKey{Key: id.name, CreatedAt: now}
			m.flowKeys.all[id] = key
		}
		key.Follow(message.FlowControl.FlowLimit)
		key.Use(now)
	}
}

// Settle implements store.Store.
func (m *Model) Settle(_ context.Context, now time.Time, settlement store.Settlement) (settled store.Settlement, err error) {
	err = m.change(func() error {
		l := m.claimed(settlement.Claim)
		if l == nil {
			return store.ErrLeaseLost
		}
		settled = settlement.Resolve(l.cancelRequested)
		tx := m.newRunTx(now, l.message.User)
		tx.settling = l.message.ID
		if settled.UpdateRun != nil {
			if err := settled.UpdateRun(tx, &settled); err != nil {
				return err
			}
		}
		m.settle(now, l, settled)
		tx.commit()
		return nil
	})
	return settled, err
}

func (m *Model) settle(now time.Time, l *life, s store.Settlement) {
	var position posthaste.Position
	for _, event := range s.Events() {
		position = m.append(now, l, event)
	}
	l.lease, l.state = 0, s.State
	switch s.State {
	case posthaste.StateRetry:
		l.retried++
		l.dueAt = s.NextAt.Truncate(time.Millisecond) // as precise as what is stored
	case posthaste.StateFailed:
		if l.message.Run == nil { // else the run may be in the DLQ
			m.deadLetters = append(m.deadLetters, &posthaste.DeadLetter{
				ID: posthaste.DeadLetterID(position), Message: l.message, Error: s.Error, Response: s.Response,
			})
		}
	}
	for _, callback := range s.Callbacks {
		m.accept(now, []*posthaste.Message{callback.For(posthaste.DeadLetterID(position))})
	}
}

// Release implements store.Store.
func (m *Model) Release(_ context.Context, now time.Time, claims []store.Claim) error {
	return m.change(func() error {
		for _, claim := range claims {
			if l := m.claimed(claim); l != nil {
				l.lease = 0
				if l.cancelRequested {
					m.endCancelled(now, l)
				}
			}
		}
		return nil
	})
}

// Cancel implements store.Store.
func (m *Model) Cancel(_ context.Context, now time.Time, user string, ids []posthaste.MessageID,
	step *store.Step,
) (changed []posthaste.MessageID, err error) {
	err = m.change(func() error {
		if err := m.checkStep(user, step); err != nil {
			return err
		}
		for _, id := range ids {
			if l := m.find(user, id); l != nil && l.message.Run == nil && m.cancel(now, l) {
				changed = append(changed, id)
			}
		}
		m.advance(user, step, len(changed), nil)
		return nil
	})
	return changed, err
}

// cancel asks for a cancellation, and grants it unless the message is claimed.
func (m *Model) cancel(now time.Time, l *life) (changed bool) {
	if l.state.Terminal() || l.cancelRequested {
		return false
	}
	l.cancelRequested = true
	m.append(now, l, posthaste.Event{MessageID: l.message.ID, State: posthaste.StateCancelRequested})
	if l.lease == 0 {
		m.endCancelled(now, l)
	}
	return true
}

func (m *Model) endCancelled(now time.Time, l *life) {
	m.append(now, l, posthaste.Event{MessageID: l.message.ID, State: posthaste.StateCancelled})
	l.state = posthaste.StateCancelled
}

// RunNow implements store.Store.
func (m *Model) RunNow(_ context.Context, now time.Time, user string, id posthaste.MessageID) error {
	return m.change(func() error {
		l := m.find(user, id)
		if l == nil || l.state.Terminal() {
			return store.ErrNotFound
		}
		if err := store.RefuseRunNow(l.message, l.lease != 0, l.cancelRequested); err != nil {
			return err
		}
		if l.dueAt.After(now) {
			l.dueAt = now.Truncate(time.Millisecond)
		}
		return nil
	})
}

// Message implements store.Store.
func (m *Model) Message(_ context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	return ask(m, func() (store.Status, error) {
		l := m.find(user, id)
		if l == nil {
			return store.Status{}, store.ErrNotFound
		}
		status := store.Status{Message: l.message, State: l.state, Retried: l.retried}
		switch {
		case l.lease != 0:
			status.State = posthaste.StateActive
		case l.waits():
			status.NextAttemptAt = l.dueAt
		}
		return status, nil
	})
}
