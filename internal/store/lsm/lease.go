package lsm

import (
	"container/list"

	"posthaste"
)

// lease is a claimed message. Guarded by scheduler.mu.
type lease struct {
	*item
	limiter         *limiter // nil without flow control
	token           uint64
	settling        bool // a settlement is on its way to disk; no other may follow
	cancelRequested bool
}

func (s *scheduler) lease(it *item, limit *limiter) *lease {
	s.lastToken++
	held := &lease{item: it, limiter: limit, token: s.lastToken, cancelRequested: it.waiting.cancelRequested}
	s.leases[it.id] = held
	s.inflight[it.lane.id.user]++
	s.memory.Take(it.lane.id.user, it.lane.id, it.waiting.size)
	it.lane.inflight++
	return held
}

// beginSettle finds the lease of a claim and reserves it for one settlement. It
// returns nil for a claim that is not current.
func (s *scheduler) beginSettle(id posthaste.MessageID, token uint64) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.leases[id]
	if held == nil || held.token != token || held.settling {
		return nil
	}
	held.settling = true
	return held
}

// abortSettle lets the claim be settled again after a settlement failed.
func (s *scheduler) abortSettle(held *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held.settling = false
}

// endSettle gives a lease up, and its message a new place if it waits again.
func (s *scheduler) endSettle(held *lease, again *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := held.lane
	s.giveUp(held)
	if again != nil {
		s.addLocked(l.id, again)
	}
	if l.list == &s.blocked {
		s.enlist(l, &s.ready)
	} else if l.list == nil {
		s.schedule(l)
	}
	s.signal()
}

// dropUnreadable gives up the lease of a message that cannot be read. The scheduler skips the
// message from now on.
func (s *scheduler) dropUnreadable(held *lease) {
	s.mu.Lock()
	s.unreadable[held.id] = true
	s.mu.Unlock()
	s.endSettle(held, nil)
}

// passesOver reports whether a message with a place in its lane is held, claimed or unreadable.
func (s *scheduler) passesOver(id posthaste.MessageID) bool {
	return s.held[id] || s.unreadable[id] || s.leases[id] != nil
}

// giveUp ends a lease and makes the lanes that waited for its limiter ready.
func (s *scheduler) giveUp(held *lease) {
	delete(s.leases, held.id)
	s.memory.Give(held.lane.id.user, held.lane.id, held.waiting.size)
	held.lane.inflight--
	user := held.lane.id.user
	if s.inflight[user]--; s.inflight[user] == 0 {
		delete(s.inflight, user)
	}
	limit := held.limiter
	if limit == nil {
		return
	}
	limit.inflight--
	s.retry(&limit.waiting)
	if limit.idle() {
		delete(s.limiters, limit.id)
	}
}

// retry makes the lanes of a limiter's list ready.
func (s *scheduler) retry(lanes *list.List) {
	for lanes.Len() > 0 {
		s.enlist(lanes.Front().Value.(*lane), &s.ready)
	}
}

// release gives up the lease of a claim without a result. If the message is to be
// cancelled it returns the lease instead, for the caller to settle.
func (s *scheduler) release(id posthaste.MessageID, token uint64) (cancelled *lease) {
	held := s.beginSettle(id, token)
	if held == nil || held.cancelRequested {
		return held
	}
	s.endSettle(held, held.item)
	return nil
}

// hold keeps a message from being claimed until unhold. If it is claimed already, hold reports
// that instead and, with request, marks its lease as to be cancelled.
func (s *scheduler) hold(id laneID, t ticket, request bool) (claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.leases[t.id]; held != nil && !held.settling {
		held.cancelRequested = held.cancelRequested || request
		return true
	}
	s.held[t.id] = true
	s.dropLocked(id, t)
	s.signal()
	return false
}

func (s *scheduler) unhold(id posthaste.MessageID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, id)
}

// claimed reports whether the message is claimed.
func (s *scheduler) claimed(id posthaste.MessageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[id] != nil
}

// attempted reports whether the message is claimed and not being settled.
func (s *scheduler) attempted(id posthaste.MessageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.leases[id]
	return held != nil && !held.settling
}
