package lanes

import (
	"container/list"
	"slices"

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

// keep counts an item that has entered memory, and drops its message if all messages in memory would be
// too large together.
func (l *lane) keep(it *Item) {
	all := l.all
	all.kept.items++
	if l.standing(it) != flow.NotBegun {
		l.begun++
	}
	it.bytes = 0
	if it.Message == nil {
		return
	}
	if size := store.MessageSize(it.Message); all.kept.bytes+size <= all.kept.most {
		it.bytes = size
		all.kept.bytes += size
	} else {
		it.Message = nil
	}
}

// discard counts an item that has left memory.
func (l *lane) discard(it *Item) {
	l.all.kept.items--
	l.all.kept.bytes -= it.bytes
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
	l.keep(it)
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
		l.discard(it)
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
	l.discard(it)
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

// first returns the first message in memory that has not begun, or nil.
func (l *lane) first() *Item {
	for _, it := range l.items {
		if l.standing(it) == flow.NotBegun {
			return it
		}
	}
	return nil
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

// waitIn makes the lane wait in some lists of limiters, and in no others. It keeps its place in those in
// which it is.
func (l *lane) waitIn(lists []*list.List) {
	l.keys = slices.DeleteFunc(l.keys, func(k keyWait) bool {
		stays := slices.Contains(lists, k.list)
		if !stays {
			k.list.Remove(k.element)
		}
		return !stays
	})
	for _, in := range lists {
		if !slices.ContainsFunc(l.keys, func(k keyWait) bool { return k.list == in }) {
			l.keys = append(l.keys, keyWait{in, in.PushBack(l)})
		}
	}
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
