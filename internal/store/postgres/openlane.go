package postgres

import (
	"cmp"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/flow"
)

// openLane is a lane that Claim looks at. It decides, without queries, what may start.
type openLane struct {
	id       laneID
	queue    *posthaste.Queue     // of a strict lane
	keys     map[string]*flowKey  // that its messages name
	begun    []*liveMessage       // those with a slot, in a queue
	inFlight int                  // claimed messages; of no meaning in a queue
	waiting  []*liveMessage       // the others that were read
	more     bool                 // others were not read
	memory   *flow.Memory[laneID] // of the node, for what is large

	ready     time.Time // when to look again; zero: when something happens
	blockedBy [][]byte  // keys it waits for
	servedAs  int       // number of its last message in this claim; 0: none
}

func (lane *openLane) add(l *liveMessage) {
	if l.begun {
		lane.begun = append(lane.begun, l)
	} else {
		lane.waiting = append(lane.waiting, l)
	}
}

// arrange sorts what was read; share is how many waiting messages that was at most.
func (lane *openLane) arrange(share int) {
	slices.SortFunc(lane.begun, compareInLane)
	slices.SortFunc(lane.waiting, compareInLane)
	lane.more = len(lane.waiting) == share
}

func compareInLane(a, b *liveMessage) int {
	if a.before(b) {
		return -1
	}
	return 1
}

// maxClaimBytes bounds the bytes of a claim, but for its last message.
const maxClaimBytes = 64 << 20

// serveInTurn picks up to limit messages that may start, one of each lane in turn.
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
			allowed := flow.UserRoom(limit-len(picked), taken.users[lane.id.user])
			if allowed == 0 {
				lane.lookBy(now) // another node may have some
				return true
			}
			l := lane.next(now, allowed)
			if l == nil {
				return true
			}
			taken.users[l.user]++
			taken.memory.Take(lane.id.user, lane.id, l.size)
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

// ceilingPause is how long a lane waits that reached its ceiling, or for memory.
const ceilingPause = time.Second

// next takes the next message that may start. If it returns nil, lane.ready is when to look
// again. allowed is how many attempts the user may still start.
func (lane *openLane) next(now time.Time, allowed int) *liveMessage {
	lane.ready, lane.blockedBy = time.Time{}, nil
	if lane.id.strict() {
		return lane.nextOfQueue(now)
	}
	if len(lane.waiting) == 0 {
		if lane.more {
			lane.lookBy(now)
		}
		return nil
	}
	if lane.inFlight >= flow.Ceiling(allowed) {
		lane.lookBy(now.Add(ceilingPause)) // what is free grows elsewhere, too
		return nil
	}
	if !lane.admits(lane.waiting[0], now) {
		return nil
	}
	lane.inFlight++
	return lane.start()
}

// nextOfQueue takes the first that may start of those that have begun, and of the next to
// begin.
func (lane *openLane) nextOfQueue(now time.Time) *liveMessage {
	if lane.queue.Paused {
		return nil
	}
	for i, l := range lane.begun {
		if l.waits() && lane.slotsTaken(i) < lane.queue.Parallelism && lane.admits(l, now) {
			l.lease = pickedLease
			return l
		}
	}
	switch {
	case len(lane.begun) >= lane.queue.Parallelism:
		return nil
	case len(lane.waiting) == 0 && lane.more:
		lane.lookBy(now)
		return nil
	case len(lane.waiting) == 0 || !lane.admits(lane.waiting[0], now):
		return nil
	}
	l := lane.start()
	lane.begun = append(lane.begun, l)
	return l
}

// slotsTaken counts the slots that the i-th message must leave to others: after the
// parallelism was lowered, earlier ones go first.
func (lane *openLane) slotsTaken(i int) (taken int) {
	for j, other := range lane.begun {
		if j < i || j > i && other.lease != 0 {
			taken++
		}
	}
	return taken
}

// pickedLease stands for the lease that a picked message will get.
const pickedLease = -1

// start takes the first waiting message.
func (lane *openLane) start() *liveMessage {
	l := lane.waiting[0]
	lane.waiting = lane.waiting[1:]
	l.lease = pickedLease
	return l
}

// admits reports whether time, memory and flow control let a message start, and counts it
// then. If not, lane.ready is when to look again.
func (lane *openLane) admits(l *liveMessage, now time.Time) bool {
	if due := time.UnixMilli(l.dueMS); due.After(now) {
		lane.lookBy(due)
		return false
	}
	if !lane.memory.Admits(now, lane.id.user, lane.id, l.size) {
		lane.lookBy(now.Add(ceilingPause)) // another node may have some
		return false
	}
	key := lane.keys[string(l.flowKey)]
	if key == nil {
		return true
	}
	ok, wakes := key.admit(now)
	if !ok {
		lane.blockedBy = append(lane.blockedBy, l.flowKey)
		if !wakes.IsZero() {
			lane.lookBy(wakes)
		}
	}
	return ok
}
