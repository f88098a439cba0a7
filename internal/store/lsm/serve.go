package lsm

import (
	"errors"
	"fmt"
	"time"

	"posthaste/internal/flow"
)

const (
	brokenPause = time.Second // how long a lane rests that cannot be read
	hungryPause = time.Second // how long one that waits for memory rests before it asks again
)

// claim leases up to limit due messages, serving the lanes in turn, and returns
// when to call again: see store.Worker. What is wrong with some lanes it returns
// beside what it leased of the others.
func (s *scheduler) claim(now time.Time, limit int) ([]*lease, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promote(now)
	s.unblock(limit)
	s.uncrowd(limit)
	var leases []*lease
	var failed []error
	hungry := func(int) *lane { return s.firstHungry(now) }
	for _, first := range []func(free int) *lane{hungry, s.firstReady} {
		for len(leases) < limit {
			l := first(limit - len(leases))
			if l == nil {
				break
			}
			held, err := s.serve(l, now, limit-len(leases))
			switch {
			case err != nil:
				failed = append(failed, fmt.Errorf("messages of user %q in lane %q: %w", l.id.user, l.id.Name, err))
				s.rest(l, now.Add(brokenPause))
			case held != nil:
				leases = append(leases, held)
				s.enlist(l, &s.ready)
			}
		}
	}
	return leases, s.next(now), errors.Join(failed...)
}

// promote makes the lanes ready whose time has come.
func (s *scheduler) promote(now time.Time) {
	for len(s.timed) > 0 && s.timed[0].wakesMS <= now.UnixMilli() {
		s.enlist(s.timed[0], &s.ready)
	}
}

// unblock makes blocked lanes ready that have room by now: free slots let the
// ceiling of every lane rise. It looks at a few, in turn.
func (s *scheduler) unblock(free int) {
	const atOnce = 16
	for range min(atOnce, s.blocked.Len()) {
		l := s.blocked.Front().Value.(*lane)
		if l.inflight < flow.Ceiling(s.room(l, free)) {
			s.enlist(l, &s.ready)
		} else {
			s.blocked.MoveToBack(l.element)
		}
	}
}

// room is how many more attempts the user of a lane may start.
func (s *scheduler) room(l *lane, free int) int {
	return flow.UserRoom(free, s.inflight[l.id.user])
}

// crowd lets a lane wait until its user has room.
func (s *scheduler) crowd(l *lane) { s.enlist(l, s.crowded.of(l.id.user)) }

// uncrowd makes as many lanes ready as their users have room for by now.
func (s *scheduler) uncrowd(free int) {
	for user, lanes := range s.crowded {
		for range min(flow.UserRoom(free, s.inflight[user]), lanes.Len()) {
			s.enlist(lanes.Front().Value.(*lane), &s.ready)
		}
		if lanes.Len() == 0 {
			delete(s.crowded, user)
		}
	}
}

// firstHungry returns a lane that has waited for memory longest of its user's, and for
// whose next message there is some by now, or nil.
func (s *scheduler) firstHungry(now time.Time) *lane {
	for user, lanes := range s.hungry {
		if lanes.Len() == 0 {
			delete(s.hungry, user)
			continue
		}
		l := lanes.Front().Value.(*lane)
		if at, _ := l.candidate(now); at < 0 || s.memory.Admits(now, user, l.id, l.items[at].waiting.size) {
			return l
		}
	}
	return nil
}

// firstReady returns the lane whose turn it is, or nil. Those that were ready may have had
// nothing to start, and left room to others of their user.
func (s *scheduler) firstReady(free int) *lane {
	if s.ready.Len() == 0 {
		s.uncrowd(free)
	}
	if s.ready.Len() == 0 {
		return nil
	}
	return s.ready.Front().Value.(*lane)
}

// feeds reports whether there is memory for a message of so many bytes of a lane. If not,
// the lane is where it waits for some: one that holds none in the line of its user, behind
// which nobody of the user is given any before the first in it. It holds up no other user.
func (s *scheduler) feeds(l *lane, now time.Time, size int) bool {
	if size <= flow.SmallMessage {
		return true
	}
	line := s.hungry[l.id.user]
	first := line == nil || line.Len() == 0 || line.Front() == l.element
	switch {
	case first && s.memory.Admits(now, l.id.user, l.id, size):
		return true
	case s.memory.Holds(l.id):
		s.enlist(l, &s.blocked)
	case l.list != line:
		s.enlist(l, s.hungry.of(l.id.user))
	}
	return false
}

// serve leases the next message of a lane that is ready or hungry. When it has none that
// may start now it returns nil, and the lane is where it waits for that.
func (s *scheduler) serve(l *lane, now time.Time, free int) (*lease, error) {
	switch room := s.room(l, free); {
	case room == 0:
		s.crowd(l)
		return nil, nil
	case l.inflight >= flow.Ceiling(room):
		s.enlist(l, &s.blocked)
		return nil, nil
	}
	if err := s.load(l); err != nil {
		return nil, err
	}
	at, wakes := l.candidate(now)
	if at < 0 {
		s.rest(l, wakes)
		return nil, nil
	}
	if !s.feeds(l, now, l.items[at].waiting.size) {
		s.wakeBefore(l, wakes)
		return nil, nil
	}
	limit, err := s.limiterOf(l.items[at])
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
	s.enlist(l, limit.line(opens))
	s.wakeBefore(l, earlier(wakes, opens))
	return nil, nil
}

// wakeBefore makes a lane that waits in a list for what its next message needs ready at the
// given time, unless that is zero: when there is some, or when another message comes first,
// which may do without.
func (s *scheduler) wakeBefore(l *lane, wakes time.Time) {
	if !wakes.IsZero() {
		s.setTimer(l, notBefore(wakes))
	}
}

// notBefore returns the first millisecond that does not begin before a time. Windows of keys
// end within one: who looks at its beginning may start nothing, and would look again and
// again until then.
func notBefore(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// rest takes a lane out of ready until the given time, or, when that is zero,
// until something happens to it.
func (s *scheduler) rest(l *lane, wakes time.Time) {
	s.delist(l)
	switch {
	case !wakes.IsZero():
		s.setTimer(l, notBefore(wakes))
	case len(l.items) == 0:
		s.schedule(l)
	}
}

// load reads on from disk when a lane's messages in memory are used up, and what
// the lane is bound by.
func (s *scheduler) load(l *lane) (err error) {
	if l.strict() && l.queue == nil {
		if l.queue, err = s.disk.readQueue(l.id.user, l.id.Name); err != nil {
			return err
		}
	}
	for l.partial && len(l.items) == 0 {
		if err := s.refill(l); err != nil {
			return err
		}
	}
	return nil
}

// refill reads the next messages of a lane from disk. Those that are claimed, held or set
// aside have keys there too and are passed over.
func (s *scheduler) refill(l *lane) error {
	const atOnce = laneHead / 2
	read, err := s.disk.readWaiting(l.id, l.horizon, atOnce)
	if err != nil {
		return err
	}
	l.partial = len(read) == atOnce
	for _, it := range read {
		l.horizon = it.ticket.next()
		if s.passesOver(it.id) {
			continue
		}
		it.lane = l
		l.items = append(l.items, it)
		s.kept.add(it)
	}
	return nil
}

// limiterOf returns the limiter of an item's flow-control key, or nil if it has
// none.
func (s *scheduler) limiterOf(it *item) (*limiter, error) {
	if it.waiting.flowKey == "" {
		return nil, nil
	}
	id := flowID{it.lane.id.user, it.waiting.flowKey}
	if limit := s.limiters[id]; limit != nil {
		return limit, nil
	}
	key, err := s.disk.readFlowKey(id.user, id.key)
	if err != nil {
		return nil, err
	}
	limit := &limiter{id: id, key: *key}
	s.limiters[id] = limit
	return limit, nil
}

// next returns when claim should be called again if nothing wakes its caller. Who waits for
// memory has to ask for it again and again.
func (s *scheduler) next(now time.Time) (next time.Time) {
	if s.ready.Len() > 0 {
		return now
	}
	if len(s.timed) > 0 {
		next = milliTime(s.timed[0].wakesMS)
	}
	if len(s.hungry) > 0 {
		next = earlier(next, now.Add(hungryPause))
	}
	return next
}
