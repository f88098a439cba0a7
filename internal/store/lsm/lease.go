package lsm

import (
	"container/list"
	"slices"

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

// endSettle gives a lease up, and its message a new place if it waits again. It does nothing
// about a message that was found to be unreadable meanwhile.
func (s *scheduler) endSettle(held *lease, again *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[held.id] != held {
		return
	}
	l := held.lane
	s.giveUp(held)
	if again != nil {
		s.addLocked(l.id, again)
	}
	if l.list == &s.blocked {
		s.enlist(l, &s.ready)
	} else if l.list == nil {
		s.lookAgain(l)
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

// passesOver reports whether a message with a place in its lane is claimed or unreadable.
func (s *scheduler) passesOver(id posthaste.MessageID) bool {
	return s.unreadable[id] || s.leases[id] != nil
}

// giveUp ends a lease and makes the lanes that wait for its key ready.
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

// retry makes the lanes of a limiter's list ready, unless they wait for anything else.
func (s *scheduler) retry(lanes *list.List) {
	for lanes.Len() > 0 {
		l := lanes.Front().Value.(*lane)
		lanes.Remove(lanes.Front())
		l.keys = slices.DeleteFunc(l.keys, func(k keyWait) bool { return k.list == lanes })
		if l.list == nil {
			s.enlist(l, &s.ready)
		}
	}
}

// release gives up the lease of a claim without a result.
func (s *scheduler) release(id posthaste.MessageID, token uint64) {
	held := s.beginSettle(id, token)
	if held == nil {
		return
	}
	again := *held.item
	again.waiting.cancelRequested = held.cancelRequested
	s.endSettle(held, &again)
}

func (s *scheduler) holdLocked(id laneID, t ticket) {
	if s.held[t.id]++; s.held[t.id] > 1 {
		return
	}
	if it := s.itemAt(id, t); it != nil {
		it.held = true
	}
}

// itemAt returns the message at a place in a lane, as far as it is in memory.
func (s *scheduler) itemAt(id laneID, t ticket) *item {
	l := s.lanes[id]
	if l == nil {
		return nil
	}
	return l.find(t)
}

// letGo ends a hold of a message, whose place in its lane is given.
func (s *scheduler) letGo(id laneID, t ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.letGoLocked(id, t)
	s.signal()
}

func (s *scheduler) letGoLocked(id laneID, t ticket) {
	if s.held[t.id]--; s.held[t.id] > 0 {
		return
	}
	delete(s.held, t.id)
	if it := s.itemAt(id, t); it != nil {
		it.held = false
		s.lookAgain(it.lane)
	}
}

// standing is a claim, as its message stands. A claim that is being given up is none.
type standing struct {
	lease           *lease // nil: none
	token           uint64
	ticket          ticket
	waiting         waiting
	cancelRequested bool
	message         *posthaste.Message
	strict          bool
}

// standing returns the claim of a message of a user.
func (s *scheduler) standing(user string, id posthaste.MessageID) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standingLocked(user, id)
}

func (s *scheduler) standingLocked(user string, id posthaste.MessageID) standing {
	held := s.leases[id]
	if held == nil || held.settling || held.lane.id.user != user {
		return standing{}
	}
	return standing{held, held.token, held.ticket, held.waiting, held.cancelRequested, held.message, held.lane.strict()}
}

// seize returns the claim of a message of a user, or, if there is none, keeps the message from being
// claimed until as many calls of letGo or move.
func (s *scheduler) seize(id laneID, t ticket) standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.standingLocked(id.user, t.id)
	if claim.lease == nil {
		s.holdLocked(id, t)
	}
	return claim
}

// setMessage keeps the message of a claim, which was read from disk.
func (s *scheduler) setMessage(held *lease, m *posthaste.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held.message = m
}

// requestCancel writes down that the message of a claim is to be cancelled.
func (s *scheduler) requestCancel(held *lease, requested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held.cancelRequested = requested
}

// token returns the token of a message's claim, 0 if it is not claimed.
func (s *scheduler) token(id posthaste.MessageID) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.leases[id]; held != nil {
		return held.token
	}
	return 0
}
