// Package lanes decides which message starts next. It knows who waits in which lane, what is claimed,
// and the limits of queues, flow-control keys, users and memory. It keeps all that in memory, and
// reads it from a Disk again: it neither writes nor knows how anything is stored.
package lanes

import (
	"container/heap"
	"container/list"
	"math/rand/v2"
	"sync"

	"posthaste"
	"posthaste/internal/flow"
)

// Scheduler decides which messages are claimed next. It knows the lanes, the claims, and when
// each lane has to be looked at. All of it can be read again from disk.
//
// It changes after the disk did: an accepted or retried message is added once
// its commit is durable, in the order of commits. The other way round, a
// message whose place is about to change is held before its commit is built, so
// that it cannot be claimed in between: it keeps its place in the lane until then.
//
// A lane is in one list: in ready if a message of it may start now, or in blocked, overQuota or
// awaitingMemory if one has to wait for slots or memory. It is in none if its next message is due
// later, if flow-control keys refuse all that are due, or if there is nothing to do before
// something is added or settled. It waits in a list of each key that refused one of its messages,
// and is in the timer heap if it is known when to look again: when a message is due, or when the
// window of a key ends.
type Scheduler struct {
	disk Disk
	wake chan struct{}

	mu             sync.Mutex
	lanes          map[ID]*lane
	limiters       map[flowID]*limiter
	ready          list.List // of *lane, served in turn
	blocked        list.List // of *lane, at their ceiling or memory limit
	overQuota      lines     // of users that are over their quota
	awaitingMemory lines     // get memory in order
	timed          timerHeap
	leases         map[posthaste.MessageID]*Lease
	held           map[posthaste.MessageID]int // how many operations hold it
	unreadable     map[posthaste.MessageID]bool
	inflight       map[string]int  // claims by user
	memory         flow.Memory[ID] // for what is claimed
	kept           kept            // in all lanes
	lengths        lengths
	lastToken      uint64
}

// lines are lists of *lane by user.
type lines map[string]*list.List

// of returns the line of a user, and makes it if necessary.
func (l lines) of(user string) *list.List {
	if l[user] == nil {
		l[user] = list.New()
	}
	return l[user]
}

// Disk reads what the scheduler does not keep in memory.
type Disk interface {
	// ReadWaiting reads up to limit waiting messages of a lane that come after a spot, in order.
	ReadWaiting(id ID, after Spot, limit int) ([]*Item, error)
	// ReadQueue and ReadFlowKey return the stored ones, or defaults for one that
	// is not stored.
	ReadQueue(user, name string) (*posthaste.Queue, error)
	ReadFlowKey(user, key string) (*posthaste.FlowKey, error)
	// KeyHome returns whose flow-control key limits a user's messages: that of another of the user's
	// partitions.
	KeyHome(user, key string) string
}

// New returns a scheduler that claims large messages of up to memory bytes together, and
// keeps waiting messages of up to half of that.
func New(disk Disk, memory int) *Scheduler {
	return &Scheduler{
		disk:           disk,
		wake:           make(chan struct{}, 1),
		lanes:          map[ID]*lane{},
		limiters:       map[flowID]*limiter{},
		overQuota:      lines{},
		awaitingMemory: lines{},
		leases:         map[posthaste.MessageID]*Lease{},
		held:           map[posthaste.MessageID]int{},
		unreadable:     map[posthaste.MessageID]bool{},
		inflight:       map[string]int{},
		memory:         flow.NewMemory[ID](memory),
		kept:           kept{most: memory / 2},
		lengths:        lengths{of: map[ID]Length{}},
		lastToken:      rand.Uint64() >> 1, // so that a claim of an earlier process fits no lease of this one
	}
}

// Restore adds a lane found on disk, whose first message may start at firstMS.
func (s *Scheduler) Restore(id ID, firstMS int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(id)
	l.partial = true
	s.setTimer(l, firstMS)
}

// Add puts a waiting message into its lane, unless it is claimed.
func (s *Scheduler) Add(id ID, it *Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(id, it)
	s.signal()
}

func (s *Scheduler) add(id ID, it *Item) {
	if s.passesOver(it.ID) {
		return
	}
	l := s.lane(id)
	it.lane = l
	inserted := l.insert(it)
	behind := !inserted || l.items[len(l.items)-1] == it // so those before it still come first
	if inserted {
		keep := laneHead
		if s.kept.items > crowdedItems {
			keep = laneHeadCrowded
		}
		l.trim(keep)
	}
	if !behind || l.list == nil {
		s.lookAgain(l)
	}
}

// lookAgain schedules a lane after a change of its first messages or of its queue's slots. A lane
// that is no queue and waits for its flow-control key is left alone: all its messages have that key.
func (s *Scheduler) lookAgain(l *lane) {
	switch {
	case l.list == nil && (l.strict() || len(l.keys) == 0):
		s.schedule(l)
	case l.list != nil && l.list != &s.ready && l.strict():
		s.enlist(l, &s.ready)
	}
}

// remove takes a message out of its lane, which may let another one start.
func (s *Scheduler) remove(id ID, t Spot) {
	l := s.lanes[id]
	if l == nil {
		return
	}
	l.remove(t)
	s.lookAgain(l)
}

// Move gives a held message another place in its lane, or none if again is nil, and lets go of it.
func (s *Scheduler) Move(id ID, from Spot, again *Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id, from)
	if again != nil {
		s.add(id, again)
	}
	s.unhold(id, from.ID)
	s.signal()
}

// lane returns the lane of that id, and makes it if necessary.
func (s *Scheduler) lane(id ID) *lane {
	l := s.lanes[id]
	if l == nil {
		l = &lane{id: id, all: s, index: notTimed}
		s.lanes[id] = l
	}
	return l
}

// schedule sets the timer of a lane that is in no list to when its next message
// may start, or forgets the lane when it has none. Where that takes a closer look,
// the lane gets it at once: what is on disk, and who of a queue has a slot.
func (s *Scheduler) schedule(l *lane) {
	const atOnce = 0
	switch {
	case len(l.items) > 0 && !l.strict():
		s.setTimer(l, l.items[0].Waiting.ReadyMS)
	case len(l.items) > 0, l.partial:
		s.setTimer(l, atOnce)
	default:
		s.clearTimer(l)
		l.waitIn(nil)
		if l.inflight == 0 {
			delete(s.lanes, l.id)
		}
	}
}

func (s *Scheduler) setTimer(l *lane, wakesMS int64) {
	l.wakesMS = wakesMS
	if l.index == notTimed {
		heap.Push(&s.timed, l)
	} else {
		heap.Fix(&s.timed, l.index)
	}
}

func (s *Scheduler) clearTimer(l *lane) {
	if l.index != notTimed {
		heap.Remove(&s.timed, l.index)
	}
}

// enlist puts a lane at the end of a list, and takes it from where it was.
func (s *Scheduler) enlist(l *lane, in *list.List) {
	s.delist(l)
	s.clearTimer(l)
	l.list, l.element = in, in.PushBack(l)
}

func (s *Scheduler) delist(l *lane) {
	if l.list != nil {
		l.list.Remove(l.element)
		l.list, l.element = nil, nil
	}
}

func (s *Scheduler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ChangeQueue applies a queue's new settings to its lane.
func (s *Scheduler) ChangeQueue(user string, q *posthaste.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[ID{user, posthaste.Lane{Kind: posthaste.LaneQueue, Name: q.Name}}]
	if l == nil {
		return
	}
	l.queue = q
	if l.list == nil {
		s.schedule(l)
	}
	s.signal()
}

// ChangeFlowKey applies a key's new settings to its lanes. Its window is taken over
// only if reset says so: the one in memory may have gone on.
func (s *Scheduler) ChangeFlowKey(user string, key posthaste.FlowKey, reset bool) {
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
	s.retry(&limit.waiting)
	s.retry(&limit.resting)
	if limit.idle() {
		delete(s.limiters, limit.id)
	}
	s.signal()
}

// ResetWindow replaces a key's window, and reports whether it is in memory. That is done
// before it is durable: a transaction that writes the key meanwhile, or counts an attempt under it,
// would take the old window for the present one and undo the reset.
func (s *Scheduler) ResetWindow(user, key string, window flow.Window) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limiters[flowID{user, key}]
	if limit == nil {
		return false
	}
	limit.key.WindowStartedAt, limit.key.WindowCount = window.StartedAt, window.Count
	return true
}

// KeyUse returns a key's window and its attempts in flight. known is false when
// what is on disk says all.
func (s *Scheduler) KeyUse(user, key string) (window flow.Window, inflight int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limiters[flowID{user, key}]
	if limit == nil {
		return flow.Window{}, 0, false
	}
	return flow.WindowOf(&limit.key), limit.inflight, true
}

// InFlight returns the number of claims of a user, or of all if user is empty.
func (s *Scheduler) InFlight(user string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if user == "" {
		return len(s.leases)
	}
	return s.inflight[user]
}

// Wake returns a channel that signals when Claim should be called.
func (s *Scheduler) Wake() <-chan struct{} { return s.wake }

// Memory is what a scheduler has in memory.
type Memory struct {
	Items   int // that wait
	Bytes   int // of their messages
	Claimed int // bytes of large messages that are claimed
	Holds   int // messages that Hold keeps from being claimed
}

// Memory returns what the scheduler has in memory.
func (s *Scheduler) Memory() Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Memory{s.kept.items, s.kept.bytes, s.memory.Taken(), len(s.held)}
}
