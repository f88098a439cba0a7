package lsm

import (
	"container/heap"
	"container/list"
	"math/rand/v2"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/flow"
)

// scheduler knows who is next: the lanes, the claims, and which lane has work
// when. It holds only what can be read again from disk.
//
// It changes after the disk did: an accepted or retried message is added once
// its commit is durable, in the order of commits. The other way round, a
// message that is about to be cancelled is held before its commit is built, so
// that it cannot be claimed in between.
type scheduler struct {
	// readWaiting reads up to limit waiting messages of a lane from disk, in
	// order, from the ticket on.
	readWaiting func(id laneID, from ticket, limit int) ([]*item, error)
	wake        chan struct{}

	mu        sync.Mutex
	lanes     map[laneID]*lane
	ready     list.List // of *lane: due messages and room, served in turn
	blocked   list.List // of *lane: due messages, no room
	timed     timerHeap
	leases    map[posthaste.MessageID]*lease
	held      map[posthaste.MessageID]bool
	items     int // in all lanes
	lastToken uint64
}

// lease is the right of a claim. Guarded by scheduler.mu.
type lease struct {
	*item
	token           uint64
	settling        bool // a settlement is on its way to disk; no other may follow
	cancelRequested bool
}

func newScheduler(readWaiting func(laneID, ticket, int) ([]*item, error)) *scheduler {
	return &scheduler{
		readWaiting: readWaiting,
		wake:        make(chan struct{}, 1),
		lanes:       map[laneID]*lane{},
		leases:      map[posthaste.MessageID]*lease{},
		held:        map[posthaste.MessageID]bool{},
		lastToken:   rand.Uint64() >> 1, // so that a claim of an earlier process fits no lease of this one
	}
}

// restore adds a lane found on disk, whose first message is due at firstMS.
func (s *scheduler) restore(id laneID, firstMS int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(id)
	l.partial = true
	s.setTimer(l, firstMS)
}

// add puts a waiting message into its lane, unless it is claimed or held.
func (s *scheduler) add(id laneID, it *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(id, it)
	s.signal()
}

func (s *scheduler) addLocked(id laneID, it *item) {
	if s.held[it.id] || s.leases[it.id] != nil {
		return
	}
	l := s.lane(id)
	it.lane = l
	if l.insert(it) {
		keep := laneHead
		if s.items++; s.items > crowdedItems {
			keep = laneHeadCrowded
		}
		s.items -= l.trim(keep)
	}
	if l.place == placeNone || l.place == placeTimed {
		s.schedule(l)
	}
}

// lane returns the lane of that id, and makes it if need be.
func (s *scheduler) lane(id laneID) *lane {
	l := s.lanes[id]
	if l == nil {
		l = &lane{id: id}
		s.lanes[id] = l
	}
	return l
}

// schedule puts a lane that is not being served where it belongs by its first
// message, or forgets it when it has none.
func (s *scheduler) schedule(l *lane) {
	switch {
	case len(l.items) > 0:
		s.setTimer(l, l.items[0].dueMS)
	case l.partial:
		s.setTimer(l, l.horizon.dueMS)
	default:
		s.clearTimer(l)
		if l.inflight == 0 {
			delete(s.lanes, l.id)
		}
	}
}

func (s *scheduler) setTimer(l *lane, wakesMS int64) {
	l.wakesMS = wakesMS
	if l.place == placeTimed {
		heap.Fix(&s.timed, l.index)
		return
	}
	l.place = placeTimed
	heap.Push(&s.timed, l)
}

func (s *scheduler) clearTimer(l *lane) {
	if l.place == placeTimed {
		heap.Remove(&s.timed, l.index)
		l.place = placeNone
	}
}

func (s *scheduler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// claim leases up to limit due messages, serving the lanes in turn, and returns
// when to call again: see store.Worker.
func (s *scheduler) claim(now time.Time, limit int) ([]*lease, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nowMS := now.UnixMilli()
	s.promote(nowMS)
	s.unblock(limit)
	var leases []*lease
	for len(leases) < limit && s.ready.Len() > 0 {
		l := s.ready.Remove(s.ready.Front()).(*lane)
		l.place = placeNone
		if l.inflight >= flow.Ceiling(limit-len(leases)) {
			s.setReady(&s.blocked, l, placeBlocked)
			continue
		}
		it, err := s.take(l, nowMS)
		if err != nil {
			s.setReady(&s.ready, l, placeReady)
			return leases, now, err
		}
		if it == nil {
			s.schedule(l)
			continue
		}
		leases = append(leases, s.lease(it))
		s.setReady(&s.ready, l, placeReady)
	}
	return leases, s.next(now), nil
}

// promote makes the lanes ready whose time has come.
func (s *scheduler) promote(nowMS int64) {
	for len(s.timed) > 0 && s.timed[0].wakesMS <= nowMS {
		l := heap.Pop(&s.timed).(*lane)
		s.setReady(&s.ready, l, placeReady)
	}
}

// unblock makes blocked lanes ready that have room by now: free slots let the
// ceiling of every lane rise. It looks at a few, in turn.
func (s *scheduler) unblock(free int) {
	const atOnce = 16
	ceiling := flow.Ceiling(free)
	for range min(atOnce, s.blocked.Len()) {
		l := s.blocked.Remove(s.blocked.Front()).(*lane)
		if l.inflight < ceiling {
			s.setReady(&s.ready, l, placeReady)
		} else {
			s.setReady(&s.blocked, l, placeBlocked)
		}
	}
}

func (s *scheduler) setReady(queue *list.List, l *lane, p place) {
	l.place = p
	l.element = queue.PushBack(l)
}

// take removes the lane's first message if it is due, reading on from disk when
// those in memory are used up.
func (s *scheduler) take(l *lane, nowMS int64) (*item, error) {
	for len(l.items) == 0 && l.partial {
		if err := s.refill(l); err != nil {
			return nil, err
		}
	}
	if len(l.items) == 0 || l.items[0].dueMS > nowMS {
		return nil, nil
	}
	s.items--
	return l.pop(), nil
}

// refill reads the next messages of a lane from disk. Claimed and held ones have
// keys there too and are passed over.
func (s *scheduler) refill(l *lane) error {
	const atOnce = laneHead / 2
	read, err := s.readWaiting(l.id, l.horizon, atOnce)
	if err != nil {
		return err
	}
	l.partial = len(read) == atOnce
	for _, it := range read {
		l.horizon = it.ticket.next()
		if s.held[it.id] || s.leases[it.id] != nil {
			continue
		}
		it.lane = l
		l.items = append(l.items, it)
		s.items++
	}
	return nil
}

func (s *scheduler) lease(it *item) *lease {
	s.lastToken++
	held := &lease{item: it, token: s.lastToken, cancelRequested: it.waiting.cancelRequested}
	s.leases[it.id] = held
	it.lane.inflight++
	return held
}

// next returns when claim should be called again if nothing wakes its caller.
func (s *scheduler) next(now time.Time) time.Time {
	switch {
	case s.ready.Len() > 0:
		return now
	case len(s.timed) > 0:
		return time.UnixMilli(s.timed[0].wakesMS)
	default:
		return time.Time{}
	}
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

// endSettle gives a lease up, and its message a new place if it waits again.
func (s *scheduler) endSettle(held *lease, again *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, held.id)
	l := held.lane
	l.inflight--
	if l.place == placeBlocked {
		s.blocked.Remove(l.element)
		s.setReady(&s.ready, l, placeReady)
	}
	if again != nil {
		s.addLocked(l.id, again)
	}
	if l.place == placeNone {
		s.schedule(l)
	}
	s.signal()
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

// hold takes a message out of the running until unhold, or marks its lease when
// it is claimed. It reports which of the two it did.
func (s *scheduler) hold(id laneID, t ticket) (claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.leases[t.id]; held != nil && !held.settling {
		held.cancelRequested = true
		return true
	}
	s.held[t.id] = true
	if l := s.lanes[id]; l != nil && l.remove(t) {
		s.items--
		if l.place == placeTimed {
			s.schedule(l)
		}
	}
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

// count returns the numbers of claims and lanes, and when the message that has
// waited longest was due (0 if none waits in memory).
func (s *scheduler) count() (inflight, lanes int, oldestMS int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		due := l.wakesMS
		if len(l.items) > 0 {
			due = l.items[0].dueMS
		} else if !l.partial {
			continue
		}
		if oldestMS == 0 || due < oldestMS {
			oldestMS = due
		}
	}
	return len(s.leases), len(s.lanes), oldestMS
}
