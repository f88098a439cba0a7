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
//
// A lane is in one place: in the timer heap if its next message becomes due
// later, in ready if it may have one now, in blocked, crowded or a limiter's list
// if it has one that must wait for room, or in none if there is nothing to do
// before something is added or settled.
type scheduler struct {
	disk lanesOnDisk
	wake chan struct{}

	mu        sync.Mutex
	lanes     map[laneID]*lane
	limiters  map[flowID]*limiter
	ready     list.List             // of *lane, served in turn
	blocked   list.List             // of *lane, at their ceiling, or without memory for their next message
	crowded   map[string]*list.List // of *lane, by user: who has no room for more
	timed     timerHeap
	leases    map[posthaste.MessageID]*lease
	held      map[posthaste.MessageID]bool
	inflight  map[string]int      // claims by user
	memory    flow.Memory[laneID] // for what is claimed
	kept      kept                // in all lanes
	lastToken uint64
}

// lanesOnDisk reads what the scheduler does not keep in memory.
type lanesOnDisk interface {
	// readWaiting reads up to limit waiting messages of a lane in order, from the
	// ticket on.
	readWaiting(id laneID, from ticket, limit int) ([]*item, error)
	// readQueue and readFlowKey return the stored ones, or defaults for one that
	// is not stored.
	readQueue(user, name string) (*posthaste.Queue, error)
	readFlowKey(user, key string) (*posthaste.FlowKey, error)
}

// lease is the right of a claim. Guarded by scheduler.mu.
type lease struct {
	*item
	limiter         *limiter // nil without flow control
	token           uint64
	settling        bool // a settlement is on its way to disk; no other may follow
	cancelRequested bool
}

// newScheduler returns a scheduler that claims large messages of so many bytes together,
// and keeps messages that wait of half as many.
func newScheduler(disk lanesOnDisk, memory int) *scheduler {
	return &scheduler{
		disk:      disk,
		wake:      make(chan struct{}, 1),
		lanes:     map[laneID]*lane{},
		limiters:  map[flowID]*limiter{},
		crowded:   map[string]*list.List{},
		leases:    map[posthaste.MessageID]*lease{},
		held:      map[posthaste.MessageID]bool{},
		inflight:  map[string]int{},
		memory:    flow.NewMemory[laneID](memory),
		kept:      kept{most: memory / 2},
		lastToken: rand.Uint64() >> 1, // so that a claim of an earlier process fits no lease of this one
	}
}

// restore adds a lane found on disk, whose first message may start at firstMS.
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
		if s.kept.items > crowdedItems {
			keep = laneHeadCrowded
		}
		l.trim(keep)
	}
	s.lookAgain(l)
}

// lookAgain sees to it that a lane is served whose messages have changed. A queue that
// waits for room under a key may have another first message, without that key.
func (s *scheduler) lookAgain(l *lane) {
	switch {
	case l.list == nil:
		s.schedule(l)
	case l.strict() && l.list != &s.ready:
		s.enlist(l, &s.ready)
	}
}

// drop takes a message out of its lane, which may let another one start.
func (s *scheduler) drop(id laneID, t ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(id, t)
	s.signal()
}

func (s *scheduler) dropLocked(id laneID, t ticket) {
	l := s.lanes[id]
	if l == nil {
		return
	}
	l.remove(t)
	s.lookAgain(l)
}

// lane returns the lane of that id, and makes it if need be.
func (s *scheduler) lane(id laneID) *lane {
	l := s.lanes[id]
	if l == nil {
		l = &lane{id: id, kept: &s.kept, index: notTimed}
		s.lanes[id] = l
	}
	return l
}

// schedule sets the timer of a lane that is in no list to when its next message
// may start, or forgets the lane when it has none. Where that takes a closer look,
// the lane gets it at once: what is on disk, and who of a queue has a slot.
func (s *scheduler) schedule(l *lane) {
	const atOnce = 0
	switch {
	case len(l.items) > 0 && !l.strict():
		s.setTimer(l, l.items[0].waiting.readyMS)
	case len(l.items) > 0, l.partial:
		s.setTimer(l, atOnce)
	default:
		s.clearTimer(l)
		if l.inflight == 0 {
			delete(s.lanes, l.id)
		}
	}
}

func (s *scheduler) setTimer(l *lane, wakesMS int64) {
	l.wakesMS = wakesMS
	if l.index == notTimed {
		heap.Push(&s.timed, l)
	} else {
		heap.Fix(&s.timed, l.index)
	}
}

func (s *scheduler) clearTimer(l *lane) {
	if l.index != notTimed {
		heap.Remove(&s.timed, l.index)
	}
}

// enlist puts a lane at the end of a list, and takes it from where it was.
func (s *scheduler) enlist(l *lane, in *list.List) {
	s.delist(l)
	s.clearTimer(l)
	l.list, l.element = in, in.PushBack(l)
}

func (s *scheduler) delist(l *lane) {
	if l.list != nil {
		l.list.Remove(l.element)
		l.list, l.element = nil, nil
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
	s.promote(now)
	s.unblock(limit)
	s.uncrowd(limit)
	var leases []*lease
	for len(leases) < limit && s.anyReady(limit-len(leases)) {
		l := s.ready.Front().Value.(*lane)
		held, err := s.serve(l, now, limit-len(leases))
		if err != nil {
			return leases, now, err
		}
		if held != nil {
			leases = append(leases, held)
			s.ready.MoveToBack(l.element)
		}
	}
	return leases, s.next(now), nil
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
func (s *scheduler) crowd(l *lane) {
	user := l.id.user
	if s.crowded[user] == nil {
		s.crowded[user] = list.New()
	}
	s.enlist(l, s.crowded[user])
}

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

// anyReady reports whether a lane is ready. Those that were may have had nothing to
// start, and left room to others of their user.
func (s *scheduler) anyReady(free int) bool {
	if s.ready.Len() == 0 {
		s.uncrowd(free)
	}
	return s.ready.Len() > 0
}

// serve leases the next message of a ready lane. When it has none that may start
// now it returns nil, and the lane is where it waits for that.
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
	if !s.memory.Admits(l.id, l.items[at].waiting.size) {
		s.enlist(l, &s.blocked)
		return nil, nil
	}
	limit, err := s.limiterOf(l.items[at])
	if err != nil {
		return nil, err
	}
	if limit != nil {
		ok, wakes := limit.admit(now)
		switch {
		case !ok && wakes.IsZero():
			s.enlist(l, &limit.waiting)
			return nil, nil
		case !ok:
			s.rest(l, wakes)
			return nil, nil
		}
	}
	return s.lease(l.takeAt(at), limit), nil
}

// rest takes a lane out of ready until the given time, or, when that is zero,
// until something happens to it.
func (s *scheduler) rest(l *lane, wakes time.Time) {
	s.delist(l)
	switch {
	case !wakes.IsZero():
		s.setTimer(l, wakes.UnixMilli())
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

// refill reads the next messages of a lane from disk. Claimed and held ones have
// keys there too and are passed over.
func (s *scheduler) refill(l *lane) error {
	const atOnce = laneHead / 2
	read, err := s.disk.readWaiting(l.id, l.horizon, atOnce)
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

func (s *scheduler) lease(it *item, limit *limiter) *lease {
	s.lastToken++
	held := &lease{item: it, limiter: limit, token: s.lastToken, cancelRequested: it.waiting.cancelRequested}
	s.leases[it.id] = held
	s.inflight[it.lane.id.user]++
	s.memory.Take(it.lane.id, it.waiting.size)
	it.lane.inflight++
	return held
}

// next returns when claim should be called again if nothing wakes its caller.
func (s *scheduler) next(now time.Time) time.Time {
	switch {
	case s.ready.Len() > 0:
		return now
	case len(s.timed) > 0:
		return milliTime(s.timed[0].wakesMS)
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

// giveUp ends a lease and lets the lanes try again that waited for its limiter.
func (s *scheduler) giveUp(held *lease) {
	delete(s.leases, held.id)
	s.memory.Give(held.lane.id, held.waiting.size)
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
	s.retryWaiting(limit)
	if limit.idle() {
		delete(s.limiters, limit.id)
	}
}

// retryWaiting makes the lanes ready that wait for a limiter.
func (s *scheduler) retryWaiting(limit *limiter) {
	for limit.waiting.Len() > 0 {
		s.enlist(limit.waiting.Front().Value.(*lane), &s.ready)
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

// hold takes a message out of the running until unhold, unless it is claimed: then
// it marks the lease if request says so. It reports whether it is claimed.
func (s *scheduler) hold(id laneID, t ticket, request bool) (claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.leases[t.id]; held != nil && !held.settling {
		held.cancelRequested = held.cancelRequested || request
		return true
	}
	s.held[t.id] = true
	s.dropLocked(id, t)
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

// changeQueue lets a lane obey a queue's new settings.
func (s *scheduler) changeQueue(user string, q *posthaste.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[laneID{user, posthaste.Lane{Kind: posthaste.LaneQueue, Name: q.Name}}]
	if l == nil {
		return
	}
	l.queue = q
	if l.list == nil {
		s.schedule(l)
	}
	s.signal()
}

// changeFlowKey lets lanes obey a key's new settings. Its window is taken over
// only if reset says so: the one in memory may have gone on.
func (s *scheduler) changeFlowKey(user string, key posthaste.FlowKey, reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limiters[flowID{user, key.Key}]
	if limit == nil {
		return
	}
	if !reset {
		key.WindowStartedAt, key.WindowCount = limit.key.WindowStartedAt, limit.key.WindowCount
	}
	limit.key = key
	s.retryWaiting(limit)
	// A lane that rests until the window ends may not have to any more.
	if l := s.lanes[laneID{user, posthaste.Lane{Kind: posthaste.LaneFlow, Name: key.Key}}]; l != nil && l.list == nil {
		s.schedule(l)
	}
	s.signal()
}

// use returns a key's window and its attempts in flight. known is false when
// what is on disk says all.
func (s *scheduler) use(user, key string) (window flow.Window, inflight int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limiters[flowID{user, key}]
	if limit == nil {
		return flow.Window{}, 0, false
	}
	return limit.window(), limit.inflight, true
}

// inFlight returns the number of a user's claims.
func (s *scheduler) inFlight(user string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inflight[user]
}

// count returns the numbers of claims and lanes, and when the message that has
// waited longest was due (0 if none waits in memory).
func (s *scheduler) count() (inflight, lanes int, oldestMS int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		due := l.wakesMS
		if len(l.items) > 0 {
			due = l.items[0].waiting.readyMS
		} else if !l.partial {
			continue
		}
		if oldestMS == 0 || due < oldestMS {
			oldestMS = due
		}
	}
	return len(s.leases), len(s.lanes), oldestMS
}
