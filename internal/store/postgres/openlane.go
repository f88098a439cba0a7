package postgres

import (
	"cmp"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// openLane is a lane that Claim looks at. It decides, without queries, what may start.
type openLane struct {
	id       laneID
	queue    *posthaste.Queue     // of a strict lane
	keys     map[string]*flowKey  // that its messages name
	waiting  []*liveMessage       // that were read and are not claimed, in order
	begun    int                  // waiting messages that use a slot of the queue
	inFlight int                  // claimed messages
	front    posthaste.Position   // no message waits before it
	reached  posthaste.Position   // the last place that was read of those that are due
	share    int                  // how many due messages that have not begun were read at most
	more     bool                 // there may be others
	memory   *flow.Memory[laneID] // of the node, for large messages

	ready     time.Time // when to look again; zero: when something happens
	blockedBy [][]byte  // keys it waits for
	elsewhere []string  // partitions to be locked for the keys of its messages
	servedAs  int       // number of its last message in this claim; 0: none
}

// add adds a message that was read.
func (lane *openLane) add(l *liveMessage) {
	switch {
	case l.lease != 0:
		lane.inFlight++
		return
	case l.standing() != flow.NotBegun:
		lane.begun++
	}
	lane.waiting = append(lane.waiting, l)
}

// arrange sorts what was read. present is the order of what is due at last.
func (lane *openLane) arrange(present posthaste.Position) {
	slices.SortFunc(lane.waiting, compareInLane)
	due := 0
	for _, l := range lane.waiting {
		if l.standing() == flow.NotBegun && l.place <= present {
			due++
			lane.reached = l.place
		}
	}
	lane.more = due == lane.share
}

// newFront returns a place before which no message waits any more.
func (lane *openLane) newFront() posthaste.Position {
	for _, l := range lane.waiting {
		if l.standing() == flow.NotBegun {
			return l.place
		}
	}
	return max(lane.front, lane.reached)
}

func compareInLane(a, b *liveMessage) int {
	if a.before(b) {
		return -1
	}
	return 1
}

// maxClaimBytes bounds the bytes of a claim, but for its last message.
const maxClaimBytes = 64 << 20

// serveInTurn picks up to limit messages that may start, one of each lane in turn. taken is what
// this node has in flight.
func serveInTurn(lanes []*openLane, taken inFlight, now time.Time, limit int) (picked []*liveMessage) {
	open, size := slices.Clone(lanes), 0
	for _, lane := range lanes {
		lane.memory = &taken.memory
	}
	for len(open) > 0 {
		open = slices.DeleteFunc(open, func(lane *openLane) bool {
			if len(picked) == limit || size >= maxClaimBytes {
				lane.lookBy(now) // there may be more
				return true
			}
			user := store.UserOf(lane.id.user)
			allowed := flow.UserQuota(limit-len(picked), taken.users[user])
			if allowed == 0 {
				lane.lookBy(now) // another node may have some
				return true
			}
			l := lane.next(now, allowed)
			if l == nil {
				return true
			}
			taken.users[user]++
			taken.memory.Take(user, lane.id, l.size)
			picked = append(picked, l)
			size += l.size
			lane.servedAs = len(picked)
			return false
		})
	}
	slices.SortStableFunc(lanes, func(a, b *openLane) int { return cmp.Compare(a.servedAs, b.servedAs) })
	return picked
}

func (lane *openLane) lookBy(at time.Time) {
	if lane.ready.IsZero() || at.Before(lane.ready) {
		lane.ready = at
	}
}

// ceilingPause is when to look again at a lane that is at its ceiling, or waits for memory.
const ceilingPause = time.Second

// next takes the next message that may start. If it returns nil, lane.ready is when to look
// again. allowed is how many attempts the user may still start.
func (lane *openLane) next(now time.Time, allowed int) *liveMessage {
	lane.ready, lane.blockedBy, lane.elsewhere = time.Time{}, nil, nil
	slots := lane.slots()
	for i, l := range lane.waiting {
		if slots.Done() {
			return nil
		}
		if !slots.Next(l.standing()) {
			continue
		}
		if due := time.UnixMilli(l.dueMS); due.After(now) {
			lane.lookBy(due)
			continue
		}
		if lane.inFlight >= flow.Ceiling(allowed) || !lane.memory.Admits(now, store.UserOf(lane.id.user), lane.id, l.size) {
			lane.lookBy(now.Add(ceilingPause)) // what is free grows on other nodes, too
			return nil
		}
		if lane.admits(l, now) {
			return lane.start(i)
		}
		if lane.id.kind == int16(posthaste.LaneFlow) {
			return nil // the others have the same key
		}
	}
	if lane.more && !slots.Done() {
		lane.lookBy(now)
	}
	return nil
}

// slots returns the slots for a pass over the waiting messages.
func (lane *openLane) slots() flow.Slots {
	if !lane.id.strict() {
		return flow.NoSlots()
	}
	return flow.QueueSlots(lane.queue, lane.inFlight, lane.begun)
}

// pickedLease stands for the lease that a picked message will get.
const pickedLease = -1

// start takes a waiting message. Most are the first.
func (lane *openLane) start(at int) *liveMessage {
	l := lane.waiting[at]
	if at == 0 {
		lane.waiting = lane.waiting[1:]
	} else {
		lane.waiting = slices.Delete(lane.waiting, at, at+1)
	}
	if l.standing() != flow.NotBegun {
		lane.begun--
	}
	lane.inFlight++
	l.lease = pickedLease
	return l
}

// admits reports whether a message's flow-control key lets it start, and counts it then. If not,
// lane.ready is when to look again.
func (lane *openLane) admits(l *liveMessage, now time.Time) bool {
	key := lane.keys[string(l.flowKey)]
	if key == nil {
		return true
	}
	if key.elsewhere != "" {
		lane.elsewhere = append(lane.elsewhere, key.elsewhere)
		lane.lookBy(now)
		return false
	}
	ok, opens := key.admit(now)
	if !ok {
		lane.blockedBy = append(lane.blockedBy, l.flowKey)
		if soon := now.Add(ceilingPause); key.foreign && !(opens.Before(soon) && !opens.IsZero()) || opens.IsZero() && key.apart {
			opens = soon // an attempt may have ended before it was known who waits for it
		}
		if !opens.IsZero() {
			lane.lookBy(opens)
		}
	}
	return ok
}
