package lsm

import (
	"container/list"
	"slices"

	"posthaste"
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

// item is a waiting or claimed message, as much of it as is in memory.
type item struct {
	ticket
	lane    *lane
	message *posthaste.Message // nil until it is needed, when it was read from disk
	waiting waiting
}

// lane is the line in which the messages of one laneID wait. It holds the
// earliest of them in memory, in order; whatever is later than horizon may be on
// disk alone. Guarded by scheduler.mu.
type lane struct {
	id       laneID
	items    []*item
	horizon  ticket // all messages before this one are in items, claimed or held
	partial  bool   // there may be messages from horizon on
	inflight int

	place   place         // which of the scheduler's lists it is in
	element *list.Element // its node there; placeReady and placeBlocked only
	wakesMS int64         // when it is looked at again; placeTimed only
	index   int           // its place in the timer heap; placeTimed only
}

// place is the scheduler's list that a lane is in. It is in one at most.
type place uint8

const (
	placeNone    place = iota // nothing to do before something is added or settled
	placeReady                // has due messages
	placeTimed                // has messages that become due later
	placeBlocked              // has due messages, and as many in flight as it may
)

// insert puts the item in its place and reports whether it is in memory now:
// one that belongs beyond the horizon of a partial lane stays on disk.
func (l *lane) insert(it *item) bool {
	if l.partial && !it.ticket.before(l.horizon) {
		return false
	}
	at, present := slices.BinarySearchFunc(l.items, it.ticket, compareItem)
	if present {
		return false
	}
	l.items = slices.Insert(l.items, at, it)
	return true
}

// trim drops items from the tail until at most keep are left and returns how
// many it dropped. They remain on disk.
func (l *lane) trim(keep int) int {
	excess := len(l.items) - keep
	if excess <= 0 {
		return 0
	}
	clear(l.items[keep:])
	l.items = l.items[:keep]
	l.horizon, l.partial = l.items[keep-1].ticket.next(), true
	return excess
}

// remove takes the message with the ticket out and reports whether it was there.
func (l *lane) remove(t ticket) bool {
	at, present := slices.BinarySearchFunc(l.items, t, compareItem)
	if present {
		l.items = slices.Delete(l.items, at, at+1)
	}
	return present
}

// pop takes the first item out.
func (l *lane) pop() *item {
	first := l.items[0]
	l.items[0] = nil
	l.items = l.items[1:]
	return first
}

func compareItem(it *item, t ticket) int {
	switch {
	case it.ticket.before(t):
		return -1
	case t.before(it.ticket):
		return 1
	default:
		return 0
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
	return last
}
