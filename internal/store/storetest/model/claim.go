package model

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// Claim implements store.Store.
func (m *Model) Claim(_ context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	err = m.do(func() error {
		m.endAskedBeforeCrash(now)
		for len(claims) < limit {
			l := m.nextDue(now, limit-len(claims))
			if l == nil {
				break
			}
			claims = append(claims, m.claim(now, l))
		}
		next = m.nextTime(now, limit-len(claims))
		return nil
	})
	return claims, next, err
}

// endAskedBeforeCrash ends messages that were claimed and asked to be cancelled
// when the store crashed: nobody will settle them.
func (m *Model) endAskedBeforeCrash(now time.Time) {
	for _, l := range m.lives {
		if l.cancelRequested && l.waits() {
			m.endCancelled(now, l)
		}
	}
}

// nextDue returns the message to be claimed next, or nil: of the lane that has
// not been served for longest the first one.
func (m *Model) nextDue(now time.Time, free int) *life {
	var first *life
	inFlight := m.inFlight()
	for _, l := range m.lives {
		if !inFlight.leave(free, l) {
			continue
		}
		if ok, _ := m.mayStart(l, now); ok && (first == nil || m.compare(l, first) < 0) {
			first = l
		}
	}
	return first
}

func (m *Model) compare(a, b *life) int {
	return cmp.Or(cmp.Compare(m.served[a.lane()], m.served[b.lane()]), a.compareInLane(b))
}

// compareInLane orders the messages of a lane.
func (l *life) compareInLane(other *life) int {
	return cmp.Or(cmp.Compare(l.place(), other.place()), bytes.Compare(l.message.ID[:], other.message.ID[:]))
}

// place is where a message is in its lane: at its due time, and in a queue, for
// its whole life, where it was accepted, unless it was delayed.
func (l *life) place() posthaste.Position {
	if l.message.Queue == "" {
		return posthaste.FirstPosition(l.dueAt)
	}
	return max(l.createdAt, posthaste.FirstPosition(l.message.NotBefore))
}

func (m *Model) claim(now time.Time, l *life) store.Claim {
	m.turn++
	m.served[l.lane()] = m.turn
	m.lease++
	l.lease = m.lease
	if key := m.flowKeys.all[l.flowKey()]; key != nil {
		window, _, _ := windowOf(key).Admit(key.FlowLimit, now)
		key.WindowStartedAt, key.WindowCount = window.StartedAt, window.Count
	}
	m.append(now, l, posthaste.Event{MessageID: l.message.ID, State: posthaste.StateActive})
	return store.Claim{Message: l.message, Retried: l.retried, Lease: l.lease}
}

// nextTime returns when a waiting message may start, if time alone lets it: zero
// if it does for none. It is of no interest while room is lacking.
func (m *Model) nextTime(now time.Time, free int) (next time.Time) {
	inFlight := m.inFlight()
	for _, l := range m.lives {
		if free > 0 && !inFlight.leave(free, l) {
			continue
		}
		ok, at := m.mayStart(l, now)
		if ok {
			at = now
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// mayStart says whether an attempt of the message may start now. If it may not,
// wakes is when to look again: the zero time if only an event can change that.
func (m *Model) mayStart(l *life, now time.Time) (ok bool, wakes time.Time) {
	switch {
	case !l.waits() || !m.queueAdmits(l):
		return false, time.Time{}
	case l.dueAt.After(now):
		return false, l.dueAt
	}
	key := m.flowKeys.all[l.flowKey()]
	if key == nil {
		return true, time.Time{}
	}
	if key.Paused || key.Parallelism > 0 && m.attempts(l.flowKey()) >= key.Parallelism {
		return false, time.Time{}
	}
	_, wakes, ok = windowOf(key).Admit(key.FlowLimit, now)
	return ok, wakes
}

func windowOf(key *posthaste.FlowKey) flow.Window {
	return flow.Window{StartedAt: key.WindowStartedAt, Count: key.WindowCount}
}

// inFlight are the numbers of claims.
type inFlight struct {
	users map[string]int
	lanes map[laneOf]int
}

func (m *Model) inFlight() inFlight {
	claims := inFlight{map[string]int{}, map[laneOf]int{}}
	for _, l := range m.lives {
		if l.lease != 0 {
			claims.users[l.message.User]++
			claims.lanes[l.lane()]++
		}
	}
	return claims
}

// leave reports whether a number of free slots leaves one to a message's user and lane.
func (f inFlight) leave(free int, l *life) bool {
	quota := flow.UserQuota(free, f.users[l.message.User])
	return quota > 0 && f.lanes[l.lane()] < flow.Ceiling(quota)
}

// attempts counts those in flight under a flow-control key.
func (m *Model) attempts(key name) (n int) {
	for _, l := range m.lives {
		if l.lease != 0 && l.flowKey() == key {
			n++
		}
	}
	return n
}

// queueAdmits reports whether the message's queue, if it has one, lets its next
// attempt start when it is due.
func (m *Model) queueAdmits(l *life) bool {
	if l.message.Queue == "" {
		return true
	}
	queue := m.queues.all[name{l.message.User, l.message.Queue}]
	if queue == nil {
		queue = &posthaste.Queue{Parallelism: posthaste.DefaultParallelism} // it was deleted
	}
	taken := 0
	for _, other := range m.lives {
		if other == l || other.lane() != l.lane() {
			continue
		}
		earlier := other.compareInLane(l) < 0
		switch {
		case m.holdsSlot(other):
			// When the queue was narrowed, the earlier of those that hold slots go on.
			if !m.holdsSlot(l) || earlier || other.lease != 0 {
				taken++
			}
		case other.waits() && earlier && !m.holdsSlot(l):
			return false // that one begins first
		}
	}
	return !queue.Paused && taken < queue.Parallelism
}

// holdsSlot reports whether a message in a queue has begun and not ended.
func (m *Model) holdsSlot(l *life) bool {
	if !l.state.Terminal() {
		return l.lease != 0 || l.retried > 0
	}
	for _, other := range m.lives {
		if other.message.SourceID == l.message.ID && !other.state.Terminal() {
			return true
		}
	}
	return false
}

// Wake implements store.Store.
func (m *Model) Wake() <-chan struct{} { return m.wake }
