package lsm

import (
	"container/list"
	"slices"
	"time"

	"posthaste"
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

// kept is what all lanes have in memory: places of messages, and the messages themselves
// as far as there is room for them. The others are read when they are claimed.
type kept struct {
	items int
	bytes int // of the messages
	most  int // bytes
}

// add counts an item, whose message it drops if there is no room for it.
func (k *kept) add(it *item) {
	k.items++
	it.bytes = 0
	if it.message == nil {
		return
	}
	size := store.MessageSize(it.message)
	if k.bytes+size > k.most {
		it.message = nil
		return
	}
	it.bytes = size
	k.bytes += size
}

func (k *kept) remove(it *item) {
	k.items--
	k.bytes -= it.bytes
}

// item is a waiting or claimed message, as much of it as is in memory.
type item struct {
	ticket
	lane    *lane
	message *posthaste.Message // nil until it is needed, when it was read from disk
	waiting waiting
	bytes   int  // that the message counts among those kept
	held    bool // its place may be about to change: it must not be claimed
}

// lane is the line in which the messages of one laneID wait. It holds the
// earliest of them in memory, in order; whatever is not before horizon may be on
// disk alone. Guarded by scheduler.mu.
type lane struct {
	id       laneID
	kept     *kept // of all lanes
	items    []*item
	horizon  ticket // all messages before this one are in items or claimed
	partial  bool   // there may be messages from horizon on
	inflight int
	queue    *posthaste.Queue // of a LaneQueue

	list    *list.List // the scheduler's list it is in, if any
	element *list.Element
	wakesMS int64 // when it is looked at again, if it is in the timer heap
	index   int   // its place in the timer heap; notTimed otherwise
}

const notTimed = -1

// strict reports whether messages keep their slot from their first attempt until
// they have ended.
func (l *lane) strict() bool { return l.id.Kind == posthaste.LaneQueue }

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
	l.kept.add(it)
	return true
}

// trim drops items from the tail until at most keep are left. They remain on disk.
func (l *lane) trim(keep int) {
	if len(l.items) <= keep {
		return
	}
	for _, it := range l.items[keep:] {
		l.kept.remove(it)
	}
	clear(l.items[keep:])
	l.items = l.items[:keep]
	l.horizon, l.partial = l.items[keep-1].ticket.next(), true
}

// find returns the message with the ticket, or nil.
func (l *lane) find(t ticket) *item {
	if at, present := slices.BinarySearchFunc(l.items, t, compareItem); present {
		return l.items[at]
	}
	return nil
}

// remove takes the message with the ticket out, if it is there.
func (l *lane) remove(t ticket) {
	if at, present := slices.BinarySearchFunc(l.items, t, compareItem); present {
		l.takeAt(at)
	}
}

// takeAt takes an item out. Most leave from the front.
func (l *lane) takeAt(at int) *item {
	it := l.items[at]
	l.kept.remove(it)
	if at == 0 {
		l.items[0] = nil
		l.items = l.items[1:]
		return it
	}
	l.items = slices.Delete(l.items, at, at+1)
	return it
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

// first returns the first message in memory that has not ended, or nil.
func (l *lane) first() *item {
	for _, it := range l.items {
		if !it.waiting.ended {
			return it
		}
	}
	return nil
}

// candidate returns the index of the item whose attempt may start now, -1 if there is
// none, and when another one may that comes before it: the zero time if only an event can
// change the answer.
func (l *lane) candidate(now time.Time) (at int, wakes time.Time) {
	if l.strict() {
		return l.strictCandidate(now)
	}
	for at, it := range l.items {
		if ready := milliTime(it.waiting.readyMS); ready.After(now) {
			return -1, ready
		}
		if !it.held {
			return at, time.Time{}
		}
	}
	return -1, time.Time{}
}

// strictCandidate finds the next attempt of a queue. Messages begin in order, so
// those that hold a slot are claimed or stand in front: they wait for a retry,
// or for their callbacks to end.
func (l *lane) strictCandidate(now time.Time) (at int, wakes time.Time) {
	if l.queue == nil || l.queue.Paused {
		return -1, time.Time{}
	}
	taken := l.inflight
	for at, it := range l.items {
		if taken >= l.queue.Parallelism {
			break
		}
		if it.waiting.ended {
			taken++
			continue
		}
		if !it.held {
			ready := milliTime(it.waiting.readyMS)
			if !ready.After(now) {
				return at, wakes
			}
			wakes = earlier(wakes, ready)
		}
		if it.waiting.retried == 0 {
			break // not begun: no later one may overtake it
		}
		taken++
	}
	return -1, wakes
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
