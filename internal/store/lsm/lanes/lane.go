package lanes

import (
	"container/list"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

const (
	// laneHead is how many waiting messages a lane keeps in memory; the others
	// are read from disk when their turn comes.
	laneHead = 1024
	// laneHeadCrowded is the same for a lane that grows while all lanes together
	// hold more than crowdedItems.
	laneHeadCrowded = 16
	crowdedItems    = 1 << 17
)

// kept counts what all lanes have in memory: items, and their messages up to a number of bytes.
// Other messages are read when they are claimed.
type kept struct {
	items int
	bytes int // of the messages
	most  int // bytes
}

// add counts an item. It drops the item's message if that exceeds the limit.
func (k *kept) add(it *Item) {
	k.items++
	it.bytes = 0
	if it.Message == nil {
		return
	}
	size := store.MessageSize(it.Message)
	if k.bytes+size > k.most {
		it.Message = nil
		return
	}
	it.bytes = size
	k.bytes += size
}

func (k *kept) remove(it *Item) {
	k.items--
	k.bytes -= it.bytes
}

// ID names a lane of a user.
type ID struct {
	User string
	posthaste.Lane
}

// Waiting is what decides when a message may start, beside its place in its lane.
type Waiting struct {
	Retried         int
	CancelRequested bool
	ReadyMS         int64  // when it may start
	FlowKey         string // of the message
	Callbacks       int    // in a queue: callbacks that have not ended
	Ended           bool   // in a queue: only its callbacks keep the slot
	Size            int    // of its delivery, in bytes, if it is large; 0 otherwise
}

// Spot is a message's spot in its lane: by store.Place.Order, then by id.
type Spot struct {
	Order posthaste.Position
	ID    posthaste.MessageID
}

// Before orders spots as a lane serves them.
func (s Spot) Before(other Spot) bool {
	if s.Order != other.Order {
		return s.Order < other.Order
	}
	return string(s.ID[:]) < string(other.ID[:])
}

// Item is a waiting or claimed message, as much of it as is in memory.
type Item struct {
	Spot
	Message *posthaste.Message // nil until it is needed, when it was read from disk
	Waiting Waiting

	lane  *lane
	bytes int // that the message counts among those kept
}

// lane holds the messages that wait in one lane. It keeps the earliest of them in memory, in
// order; those after horizon may be on disk only. Guarded by Scheduler.mu.
type lane struct {
	id       ID
	all      *Scheduler
	items    []*Item
	begun    int  // items that use a slot of the queue
	horizon  Spot // all messages up to here are in items or claimed
	partial  bool // there may be messages after horizon
	inflight int
	queue    *posthaste.Queue // of a LaneQueue

	list    *list.List // the scheduler's list it is in, if any
	element *list.Element
	keys    []keyWait // flow-control keys that refused its messages
	needs   int       // bytes of its message that waits for memory
	wakesMS int64     // when it is looked at again, if it is in the timer heap
	index   int       // its place in the timer heap; notTimed otherwise
}

// keyWait is the place of a lane in a list of a limiter.
type keyWait struct {
	list    *list.List
	element *list.Element
}

const notTimed = -1

// strict reports whether messages keep their slot from their first attempt until
// they have ended.
func (l *lane) strict() bool { return l.id.Kind == posthaste.LaneQueue }

// Claimed returns what an item has of the slots.
func (l *lane) standing(it *Item) flow.Standing {
	switch {
	case !l.strict():
		return flow.NotBegun
	case it.Waiting.Ended:
		return flow.Lingers
	case it.Waiting.Retried > 0:
		return flow.Begun
	}
	return flow.NotBegun
}

// slots returns the slots for a pass over the items.
func (l *lane) slots() flow.Slots {
	switch {
	case !l.strict():
		return flow.NoSlots()
	case l.queue == nil:
		return flow.Slots{}
	}
	return flow.QueueSlots(l.queue, l.inflight, l.begun)
}

// count counts an item that has entered the lane's memory.
func (l *lane) count(it *Item) {
	l.all.kept.add(it)
	if l.standing(it) != flow.NotBegun {
		l.begun++
	}
}

// discount counts an item that has left the lane's memory.
func (l *lane) discount(it *Item) {
	l.all.kept.remove(it)
	if l.standing(it) != flow.NotBegun {
		l.begun--
	}
}

// insert puts the item in its place and reports whether it is in memory now:
// one that belongs beyond the horizon of a partial lane stays on disk.
func (l *lane) insert(it *Item) bool {
	if l.partial && l.horizon.Before(it.Spot) {
		return false
	}
	at, present := slices.BinarySearchFunc(l.items, it.Spot, compareItem)
	if present {
		return false
	}
	l.items = slices.Insert(l.items, at, it)
	l.count(it)
	return true
}

// trim drops items from the tail until at most keep are left besides those that use a slot. They
// remain on disk.
func (l *lane) trim(keep int) {
	keep += l.begun
	if len(l.items) <= keep {
		return
	}
	l.horizon, l.partial = l.items[keep-1].Spot, true
	for _, it := range l.items[keep:] {
		l.discount(it)
	}
	clear(l.items[keep:])
	l.items = l.items[:keep]
}

// remove takes the message at a spot out, if it is there.
func (l *lane) remove(t Spot) {
	if at, present := slices.BinarySearchFunc(l.items, t, compareItem); present {
		l.takeAt(at)
	}
}

// takeAt takes an item out. Most leave from the front.
func (l *lane) takeAt(at int) *Item {
	it := l.items[at]
	l.discount(it)
	if at == 0 {
		l.items[0] = nil
		l.items = l.items[1:]
		return it
	}
	l.items = slices.Delete(l.items, at, at+1)
	return it
}

func compareItem(it *Item, t Spot) int {
	switch {
	case it.Spot.Before(t):
		return -1
	case t.Before(it.Spot):
		return 1
	default:
		return 0
	}
}

// first returns the first message in memory that has not ended, or nil.
func (l *lane) first() *Item {
	for _, it := range l.items {
		if !it.Waiting.Ended {
			return it
		}
	}
	return nil
}

// search is a pass over the items of a lane for those whose attempt may start.
type search struct {
	lane  *lane
	slots flow.Slots
	at    int       // index of the item that next found
	wakes time.Time // when one that was passed over may start; zero if that depends on an event
}

func (l *lane) search() search { return search{lane: l, slots: l.slots(), at: -1} }

// next finds the next item whose attempt may start now.
func (s *search) next(now time.Time) bool {
	for s.at+1 < len(s.lane.items) && !s.slots.Done() {
		s.at++
		it := s.lane.items[s.at]
		held := s.lane.all.held[it.ID] > 0
		if held && !s.lane.strict() {
			continue // the others need not wait
		}
		if !s.slots.Next(s.lane.standing(it)) || held {
			continue
		}
		ready := time.UnixMilli(it.Waiting.ReadyMS)
		if !ready.After(now) {
			return true
		}
		s.wakes = earlier(s.wakes, ready)
	}
	return false
}

// onlyToBegin reports whether the last item is the only one that has not begun.
func (l *lane) onlyToBegin() bool {
	return len(l.items) == l.begun+1 && l.standing(l.items[l.begun]) == flow.NotBegun
}

// needsMore reports whether there may be a message on disk that could start before all in memory.
func (l *lane) needsMore() bool {
	switch {
	case !l.partial || len(l.items) > l.begun:
		return false
	case len(l.items) == 0:
		return true
	}
	return l.inflight+l.begun < l.queue.Parallelism
}

// waitFor puts the lane into a list of a limiter, where it keeps its place if it is there, and
// returns in how many lists it is if it was in n, which come first in keys.
func (l *lane) waitFor(in *list.List, n int) int {
	at := slices.IndexFunc(l.keys, func(k keyWait) bool { return k.list == in })
	if at >= 0 && at < n {
		return n
	}
	if at < 0 {
		at = len(l.keys)
		l.keys = append(l.keys, keyWait{in, in.PushBack(l)})
	}
	l.keys[n], l.keys[at] = l.keys[at], l.keys[n]
	return n + 1
}

// waitForFirst takes the lane out of all lists of limiters but the first n.
func (l *lane) waitForFirst(n int) {
	for _, k := range l.keys[n:] {
		k.list.Remove(k.element)
	}
	l.keys = l.keys[:n]
}

// earlier returns the first of two times, of which the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// timerHeap orders lanes by the time they are looked at again.
type timerHeap []*lane

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].wakesMS < h[j].wakesMS }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for container/heap.
func (h *timerHeap) Push(x any) {
	l := x.(*lane)
	l.index = len(*h)
	*h = append(*h, l)
}

// Pop is for container/heap.
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	last.index = notTimed
	return last
}
