package lanes

import (
	"container/list"
	"errors"
	"fmt"
	"time"

	"posthaste/internal/flow"
	"posthaste/internal/store"
)

const (
	brokenPause = time.Second // until a lane that cannot be read is tried again
	memoryPause = time.Second // until a lane that waits for memory is tried again
)

// Claim leases up to limit due messages, one of each lane in turn, and returns when to call
// again: see store.Backend. It returns the errors of some lanes together with the leases of the
// others.
func (s *Scheduler) Claim(now time.Time, limit int) ([]*Lease, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promote(now)
	s.unblock(limit)
	s.readyWithinQuota(limit)
	var leases []*Lease
	var failed []error
	awaitingMemory := func(int) *lane { return s.firstAwaitingMemory(now) }
	for _, first := range []func(free int) *lane{awaitingMemory, s.firstReady} {
		for len(leases) < limit {
			l := first(limit - len(leases))
			if l == nil {
				break
			}
			held, err := s.serve(l, now, limit-len(leases))
			switch {
			case err != nil:
				failed = append(failed, fmt.Errorf("messages of user %q in lane %q: %w", l.id.User, l.id.Name, err))
				s.rest(l, now.Add(brokenPause))
			case held != nil:
				leases = append(leases, held)
				s.enlist(l, &s.ready)
			}
		}
	}
	return leases, s.next(now), errors.Join(failed...)
}

// promote makes lanes whose time has come ready.
func (s *Scheduler) promote(now time.Time) {
	for len(s.timed) > 0 && s.timed[0].wakesMS <= now.UnixMilli() {
		s.enlist(s.timed[0], &s.ready)
	}
}

// unblock makes blocked lanes ready that are below their ceiling, which rises with the number of
// free slots. It looks at a few lanes a call.
func (s *Scheduler) unblock(free int) {
	const atOnce = 16
	for range min(atOnce, s.blocked.Len()) {
		l := s.blocked.Front().Value.(*lane)
		if l.inflight < flow.Ceiling(s.quota(l, free)) {
			s.enlist(l, &s.ready)
		} else {
			s.blocked.MoveToBack(l.element)
		}
	}
}

// quota returns how many more attempts the lane's user may start.
func (s *Scheduler) quota(l *lane, free int) int {
	return flow.UserQuota(free, s.inflight[l.id.User])
}

// readyWithinQuota makes as many lanes ready as their users' quotas allow.
func (s *Scheduler) readyWithinQuota(free int) {
	for user, lanes := range s.overQuota {
		for range min(flow.UserQuota(free, s.inflight[user]), lanes.Len()) {
			s.enlist(lanes.Front().Value.(*lane), &s.ready)
		}
		if lanes.Len() == 0 {
			delete(s.overQuota, user)
		}
	}
}

// firstAwaitingMemory returns a lane that can have memory for its next message now, or nil. It
// considers the lane of each user that has waited longest.
func (s *Scheduler) firstAwaitingMemory(now time.Time) *lane {
	for user, lanes := range s.awaitingMemory {
		if lanes.Len() == 0 {
			delete(s.awaitingMemory, user)
			continue
		}
		l := lanes.Front().Value.(*lane)
		if s.memory.Admits(now, user, l.id, l.needs) {
			return l
		}
	}
	return nil
}

// firstReady returns the next ready lane, or nil. If none is ready it first looks for lanes whose
// users are within quota again.
func (s *Scheduler) firstReady(free int) *lane {
	if s.ready.Len() == 0 {
		s.readyWithinQuota(free)
	}
	if s.ready.Len() == 0 {
		return nil
	}
	return s.ready.Front().Value.(*lane)
}

// admitMemory reports whether there is memory for a lane's message of size bytes. If not, it
// moves the lane to where it waits for memory: a lane that holds some to blocked, any other to
// its user's line, which is served in order. It delays no other user.
func (s *Scheduler) admitMemory(l *lane, now time.Time, size int) bool {
	if size <= flow.SmallMessage {
		return true
	}
	l.needs = size
	line := s.awaitingMemory[l.id.User]
	first := line == nil || line.Len() == 0 || line.Front() == l.element
	switch {
	case first && s.memory.Admits(now, l.id.User, l.id, size):
		return true
	case s.memory.Holds(l.id):
		s.enlist(l, &s.blocked)
	case l.list != line:
		s.enlist(l, s.awaitingMemory.of(l.id.User))
	}
	return false
}

// serve leases the next message of a lane that is ready or waits for memory. If none may start
// now, it returns nil and moves the lane to where it waits.
func (s *Scheduler) serve(l *lane, now time.Time, free int) (*Lease, error) {
	switch quota := s.quota(l, free); {
	case quota == 0:
		s.enlist(l, s.overQuota.of(l.id.User))
		return nil, nil
	case l.inflight >= flow.Ceiling(quota):
		s.enlist(l, &s.blocked)
		return nil, nil
	}
	if err := s.load(l); err != nil {
		return nil, err
	}
	var refusals []*list.List // of keys
	var wakes time.Time       // when one that was passed over may start; zero if that depends on an event
	slots := l.slots()
	for at, it := range l.items {
		if slots.Done() {
			break
		}
		held := s.held[it.ID] > 0
		if held && !l.strict() {
			continue // the others need not wait
		}
		if !slots.Next(l.standing(it)) || held {
			continue
		}
		if ready := time.UnixMilli(it.Waiting.ReadyMS); ready.After(now) {
			wakes = store.Earlier(wakes, ready)
			continue
		}
		if !s.admitMemory(l, now, it.Waiting.Size) {
			l.waitIn(refusals)
			s.wakeBefore(l, wakes)
			return nil, nil
		}
		limit, err := s.limiterOf(it)
		if err != nil {
			return nil, err
		}
		if limit == nil {
			return s.lease(l.takeAt(at), nil), nil
		}
		ok, opens := limit.admit(now)
		if ok {
			return s.lease(l.takeAt(at), limit), nil
		}
		refusals = append(refusals, limit.refused(opens))
		wakes = store.Earlier(wakes, opens)
	}
	l.waitIn(refusals)
	s.rest(l, wakes)
	return nil, nil
}

// wakeBefore also makes a lane that waits in a list ready at the given time, unless that is zero:
// another message may be first by then.
func (s *Scheduler) wakeBefore(l *lane, wakes time.Time) {
	if !wakes.IsZero() {
		s.setTimer(l, notBefore(wakes))
	}
}

// notBefore rounds a time up to a millisecond. The window of a key ends within a millisecond; a
// caller that was woken at its beginning would find nothing to start and ask again at once.
func notBefore(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// rest takes a lane out of ready until the given time or, if that is zero, until it changes.
func (s *Scheduler) rest(l *lane, wakes time.Time) {
	s.delist(l)
	s.wakeBefore(l, wakes)
	if wakes.IsZero() && len(l.items) == 0 {
		s.schedule(l)
	}
}

// load reads a lane's queue settings and, if those in memory do not suffice, its next messages.
func (s *Scheduler) load(l *lane) (err error) {
	if l.strict() && l.queue == nil {
		if l.queue, err = s.disk.ReadQueue(l.id.User, l.id.Name); err != nil {
			return err
		}
	}
	for l.needsMore() {
		if err := s.refill(l); err != nil {
			return err
		}
	}
	return nil
}

// refill reads the next messages of a lane from disk, except those that are claimed or unreadable.
func (s *Scheduler) refill(l *lane) error {
	const atOnce = laneHead / 2
	read, err := s.disk.ReadWaiting(l.id, l.horizon, atOnce)
	if err != nil {
		return err
	}
	l.partial = len(read) == atOnce
	for _, it := range read {
		l.horizon = it.Spot
		if s.passesOver(it.ID) {
			continue
		}
		it.lane = l
		l.items = append(l.items, it)
		l.keep(it)
	}
	return nil
}

// limiterOf returns the limiter of an item's flow-control key, or nil if it has
// none.
func (s *Scheduler) limiterOf(it *Item) (*limiter, error) {
	if it.Waiting.FlowKey == "" {
		return nil, nil
	}
	id := s.flowID(it.lane.id.User, it.Waiting.FlowKey)
	if limit := s.limiters[id]; limit != nil {
		return limit, nil
	}
	key, err := s.disk.ReadFlowKey(id.user, id.key)
	if err != nil {
		return nil, err
	}
	limit := &limiter{id: id, key: *key}
	s.limiters[id] = limit
	return limit, nil
}

// next returns when claim should be called again if nothing wakes its caller. Lanes that wait for
// memory have to be tried again.
func (s *Scheduler) next(now time.Time) (next time.Time) {
	if s.ready.Len() > 0 {
		return now
	}
	if len(s.timed) > 0 {
		next = time.UnixMilli(s.timed[0].wakesMS)
	}
	if len(s.awaitingMemory) > 0 {
		next = store.Earlier(next, now.Add(memoryPause))
	}
	return next
}
