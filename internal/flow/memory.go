package flow

import (
	"maps"
	"time"
)

// SmallMessage is the size, in bytes, up to which messages count nothing in Memory: the number of
// slots limits how many are in flight.
const SmallMessage = 4 << 10

// Memory limits the memory for large messages in flight, and shares it among users and lanes. K
// names a lane. A large message waits until there is enough; a small one never waits.
//
// A lane may have one large message in flight if it fits, and more if an eighth of the free memory
// holds them all, so that a destination that hangs leaves most to others. Likewise the lanes of a
// user may have one, and more if they together use at most three times what is left (see
// UserQuota). A message that is larger than all memory starts when no other large one is in flight.
// For a message that has waited for 3 s, memory is reserved until it fits, for up to a minute, and
// then not for a minute. The zero value has no limit.
type Memory[K comparable] struct {
	limit, taken int
	users        map[string]int // bytes; of those that have any
	lanes        map[K]int      // likewise
	waiting      *memoryWaiters[K]
}

// NewMemory returns unused memory of limit bytes.
func NewMemory[K comparable](limit int) Memory[K] {
	return Memory[K]{limit: limit, users: map[string]int{}, lanes: map[K]int{}, waiting: &memoryWaiters[K]{users: map[string]*waiter[K]{}}}
}

// Admits reports whether a message of size bytes, in a lane of a user, may start. If not, the whole
// lane waits, as long as it asks again within 10 s.
func (m *Memory[K]) Admits(now time.Time, user string, lane K, size int) bool {
	if m.limit == 0 || size <= SmallMessage {
		return true
	}
	if m.waiting.passes(now, user, lane) && m.fits(user, lane, size) {
		m.waiting.leave(user, lane)
		return true
	}
	if !m.Holds(lane) {
		m.waiting.wait(now, user, lane, m.users[user] == 0)
	}
	return false
}

// fits reports whether there is memory for a large message of a lane.
func (m *Memory[K]) fits(user string, lane K, size int) bool {
	if m.taken == 0 {
		return true
	}
	free := m.limit - m.taken
	return size <= free &&
		(m.lanes[lane] == 0 || m.lanes[lane]+size <= free/laneShare) &&
		(m.users[user] == 0 || m.users[user]+size <= userFactor*(free-size))
}

// Holds reports whether a lane has large messages in flight.
func (m *Memory[K]) Holds(lane K) bool { return m.lanes[lane] > 0 }

// Take counts a message that starts. Give is its inverse.
func (m *Memory[K]) Take(user string, lane K, size int) { m.add(user, lane, size) }

// Give counts a message that is not in flight any more.
func (m *Memory[K]) Give(user string, lane K, size int) { m.add(user, lane, -size) }

func (m *Memory[K]) add(user string, lane K, size int) {
	if m.limit == 0 || size <= SmallMessage && -size <= SmallMessage {
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

// Clone returns a copy with the same use, to try with. Both know the same lanes that wait.
func (m *Memory[K]) Clone() Memory[K] {
	return Memory[K]{limit: m.limit, taken: m.taken, users: maps.Clone(m.users), lanes: maps.Clone(m.lanes), waiting: m.waiting}
}

// Taken returns the bytes of the large messages in flight.
func (m *Memory[K]) Taken() int { return m.taken }
