package lanes

import (
	"container/list"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/flow"
)

// Lease is a claimed message. What changes, its Message included, is guarded by Scheduler.mu.
type Lease struct {
	*Item
	Token uint64

	limiter         *limiter // nil without flow control
	settling        bool     // a settlement is on its way to disk; no other may follow
	cancelRequested bool
}

// User returns the user whose message it is.
func (held *Lease) User() string { return held.lane.id.User }

// InQueue reports whether the message is in a queue, where it may change on disk while it is claimed:
// by the end of a callback.
func (held *Lease) InQueue() bool { return held.lane.strict() }

// lease claims a message that was taken out of its lane.
func (s *Scheduler) lease(it *Item, limit *limiter) *Lease {
	s.lastToken++
	held := &Lease{Item: it, limiter: limit, Token: s.lastToken, cancelRequested: it.Waiting.CancelRequested}
	s.leases[it.ID] = held
	s.inflight[it.lane.id.User]++
	s.memory.Take(it.lane.id.User, it.lane.id, it.Waiting.Size)
	it.lane.inflight++
	return held
}

// BeginSettle finds the lease of a claim and reserves it for one settlement. It
// returns nil for a claim that is not current.
func (s *Scheduler) BeginSettle(id posthaste.MessageID, token uint64) *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.leases[id]
	if held == nil || held.Token != token || held.settling {
		return nil
	}
	held.settling = true
	return held
}

// EndSettle gives a lease up, and its message a new place if it waits again. It does nothing
// about a message that was found to be unreadable meanwhile.
func (s *Scheduler) EndSettle(held *Lease, again *Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[held.ID] != held {
		return
	}
	l := held.lane
	s.giveUp(held)
	if again != nil {
		s.add(l.id, again)
	}
	if l.list == &s.blocked {
		s.enlist(l, &s.ready)
	} else if l.list == nil {
		s.lookAgain(l)
	}
	s.signal()
}

// DropUnreadable gives up the lease of a message that cannot be read. The scheduler skips the
// message from now on.
func (s *Scheduler) DropUnreadable(held *Lease) {
	s.mu.Lock()
	s.unreadable[held.ID] = true
	s.mu.Unlock()
	s.EndSettle(held, nil)
}

// passesOver reports whether a message with a place in its lane is claimed or unreadable.
func (s *Scheduler) passesOver(id posthaste.MessageID) bool {
	return s.unreadable[id] || s.leases[id] != nil
}

// giveUp ends a lease and makes the lanes that wait for its key ready.
func (s *Scheduler) giveUp(held *Lease) {
	delete(s.leases, held.ID)
	s.memory.Give(held.lane.id.User, held.lane.id, held.Waiting.Size)
	held.lane.inflight--
	user := held.lane.id.User
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
func (s *Scheduler) retry(lanes *list.List) {
	for lanes.Len() > 0 {
		l := lanes.Front().Value.(*lane)
		lanes.Remove(lanes.Front())
		l.keys = slices.DeleteFunc(l.keys, func(k keyWait) bool { return k.list == lanes })
		if l.list == nil {
			s.enlist(l, &s.ready)
		}
	}
}

// Release gives up the lease of a claim without a result.
func (s *Scheduler) Release(id posthaste.MessageID, token uint64) {
	held := s.BeginSettle(id, token)
	if held == nil {
		return
	}
	again := *held.Item
	again.Waiting.CancelRequested = held.cancelRequested
	s.EndSettle(held, &again)
}

// Unhold ends a hold of a message in a lane.
func (s *Scheduler) Unhold(id ID, message posthaste.MessageID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unhold(id, message)
	s.signal()
}

func (s *Scheduler) unhold(id ID, message posthaste.MessageID) {
	if s.held[message]--; s.held[message] > 0 {
		return
	}
	delete(s.held, message)
	if l := s.lanes[id]; l != nil {
		s.lookAgain(l)
	}
}

// Claimed is a lease as of a moment.
type Claimed struct {
	*Lease                             // nil if the message is not claimed, or the claim is being settled
	Message         *posthaste.Message // nil if it was not read yet
	CancelRequested bool
}

// Claimed returns the claim of a message of a user.
func (s *Scheduler) Claimed(user string, id posthaste.MessageID) Claimed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed(user, id)
}

func (s *Scheduler) claimed(user string, id posthaste.MessageID) Claimed {
	held := s.leases[id]
	if held == nil || held.settling || held.User() != user {
		return Claimed{}
	}
	return Claimed{held, held.Message, held.cancelRequested}
}

// Hold returns the claim of a message of a user or, if there is none, keeps the message from being
// claimed until Unhold or Move is called as often.
func (s *Scheduler) Hold(user string, id posthaste.MessageID) Claimed {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.claimed(user, id)
	if claim.Lease == nil {
		s.held[id]++
	}
	return claim
}

// SetMessage keeps the message of a claim, which was read from disk.
func (s *Scheduler) SetMessage(held *Lease, m *posthaste.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held.Message = m
}

// RequestCancel writes down that the message of a claim is to be cancelled.
func (s *Scheduler) RequestCancel(held *Lease, requested bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held.cancelRequested = requested
}

// Token returns the token of a message's claim, 0 if it is not claimed.
func (s *Scheduler) Token(id posthaste.MessageID) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.leases[id]; held != nil {
		return held.Token
	}
	return 0
}

// flowID is a flow-control key of a user.
type flowID struct {
	user, key string
}

// flowID returns the key that limits a user's messages.
func (s *Scheduler) flowID(user, key string) flowID { return flowID{s.disk.KeyHome(user, key), key} }

// limiter keeps a flow-control key's limits. It is shared by all lanes whose
// messages name the key. Guarded by Scheduler.mu.
type limiter struct {
	id       flowID
	key      posthaste.FlowKey
	inflight int
	waiting  list.List // of *lane: their next message must wait for others of this key
	resting  list.List // of *lane: for the end of its window
}

// admit counts one more attempt if flow.Admit lets it start now.
func (m *limiter) admit(now time.Time) (ok bool, opens time.Time) {
	window, opens, ok := flow.Admit(&m.key, m.inflight, now)
	if ok {
		m.key.WindowStartedAt, m.key.WindowCount = window.StartedAt, window.Count
		m.inflight++
	}
	return ok, opens
}

// refused returns the list for lanes that admit refused until the key opens.
func (m *limiter) refused(opens time.Time) *list.List {
	if opens.IsZero() {
		return &m.waiting
	}
	return &m.resting
}

// idle reports whether the limiter knows nothing that is not on disk.
func (m *limiter) idle() bool {
	return m.inflight == 0 && m.waiting.Len() == 0 && m.resting.Len() == 0
}
