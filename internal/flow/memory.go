package flow

import (
	"maps"
	"time"
)

// SmallMessage is the size, in bytes, up to which messages take no part in the sharing of
// Memory: slots bound how many are in flight.
const SmallMessage = 4 << 10

// Memory shares out memory for the messages in flight among lanes, which K names. What is
// large waits until there is room, what is small never does.
//
// A lane may have one large message wherever it fits, and more as far as an eighth of what
// is free holds them: a destination that hangs leaves most to others. So does a user: all
// of one's lanes may have one message, and more as far as they hold no more than three
// times what is left (see UserRoom). A message that is larger than all there is goes alone.
// For one that has waited for seconds, memory is kept until it fits, for a minute at most,
// and for a minute is not. The zero value has room for everything.
type Memory[K comparable] struct {
	most, taken int
	users       map[string]int // bytes; of those that have any
	lanes       map[K]int      // likewise
	line        *memoryLine[K]
}

// NewMemory returns an unused memory of most bytes.
func NewMemory[K comparable](most int) Memory[K] {
	return Memory[K]{most: most, users: map[string]int{}, lanes: map[K]int{}, line: &memoryLine[K]{users: map[string]*waiter[K]{}}}
}

// Admits reports whether a message of size bytes, in a lane of a user, may be in flight
// too. If not, the lane waits, as long as it asks again every few seconds.
func (m *Memory[K]) Admits(now time.Time, user string, lane K, size int) bool {
	if m.most == 0 || size <= SmallMessage {
		return true
	}
	if m.line.passes(now, user, lane) && m.fits(user, lane, size) {
		m.line.leave(user, lane)
		return true
	}
	if !m.Holds(lane) {
		m.line.wait(now, user, lane, m.users[user] == 0)
	}
	return false
}

// fits reports whether there is room for a large message of a lane.
func (m *Memory[K]) fits(user string, lane K, size int) bool {
	if m.taken == 0 {
		return true
	}
	free := m.most - m.taken
	return size <= free &&
		(m.lanes[lane] == 0 || m.lanes[lane]+size <= free/shareOfRoom) &&
		(m.users[user] == 0 || m.users[user]+size <= timesFree*(free-size))
}

// Holds reports whether a lane has large messages in flight.
func (m *Memory[K]) Holds(lane K) bool { return m.lanes[lane] > 0 }

// Take counts a message that is in flight from now on, Give one that is no more.
func (m *Memory[K]) Take(user string, lane K, size int) { m.add(user, lane, size) }

// Give is the inverse of Take.
func (m *Memory[K]) Give(user string, lane K, size int) { m.add(user, lane, -size) }

func (m *Memory[K]) add(user string, lane K, size int) {
	if m.most == 0 || size <= SmallMessage && -size <= SmallMessage {
		return
	}
	m.taken += size
	if m.users[user] += size; m.users[user] == 0 {
		delete(m.users, user)
	}
	if m.lanes[lane] += size; m.lanes[lane] == 0 {
		delete(m.lanes, lane)
	}
}

// Clone returns memory of which as much is taken, to try with. Who waits is the same.
func (m *Memory[K]) Clone() Memory[K] {
	return Memory[K]{most: m.most, taken: m.taken, users: maps.Clone(m.users), lanes: maps.Clone(m.lanes), line: m.line}
}

// Taken returns the bytes of the large messages in flight.
func (m *Memory[K]) Taken() int { return m.taken }
