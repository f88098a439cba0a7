package flow

import (
	"sync"
	"time"
)

const (
	// reserveAfter is how long a lane waits for memory before memory is reserved for it.
	reserveAfter = 3 * time.Second
	// reservedFor is how long memory stays reserved for a lane, and how long it is not after that:
	// the lane's destination may hang.
	reservedFor = time.Minute
	// askedWithin is how long a lane counts as waiting since it asked last.
	askedWithin = 10 * time.Second
)

// memoryWaiters knows, of each user, the lane that has waited longest for memory. When that has
// waited for reserveAfter, no other lane of its user gets memory before it, and once the user uses
// no memory, no other lane at all does. Its methods may be called concurrently.
type memoryWaiters[K comparable] struct {
	mu    sync.Mutex
	users map[string]*waiter[K]
	first *waiter[K] // for which memory is reserved; nil if for none
}

// waiter is a lane that waits for memory.
type waiter[K comparable] struct {
	user     string
	lane     K
	since    time.Time // later than now if memory was reserved in vain
	asked    time.Time // last
	userIdle bool      // its user used no memory then
}

// overdue reports whether the lane has waited for reserveAfter.
func (w *waiter[K]) overdue(now time.Time) bool { return now.Sub(w.since) >= reserveAfter }

// waits reports whether the lane counts as waiting. The clock may step.
func (w *waiter[K]) waits(now time.Time) bool { return now.Sub(w.asked).Abs() <= askedWithin }

// passes reports whether no lane that has waited for longer comes before a lane.
func (m *memoryWaiters[K]) passes(now time.Time, user string, lane K) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.first; first != nil {
		switch {
		case !first.waits(now):
			m.remove(first)
		case now.Sub(first.since) >= reserveAfter+reservedFor:
			first.since, m.first = now.Add(reservedFor), nil
		case first.user != user:
			return false
		}
	}
	w := m.users[user]
	return w == nil || w.lane == lane || !w.waits(now) || !w.overdue(now)
}

// leave removes a lane that got its memory.
func (m *memoryWaiters[K]) leave(user string, lane K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.users[user]; w != nil && w.lane == lane {
		m.remove(w)
	}
}

func (m *memoryWaiters[K]) remove(w *waiter[K]) {
	delete(m.users, w.user)
	if m.first == w {
		m.first = nil
	}
}

// wait adds a lane unless another one of its user waits. userIdle reports whether the user uses no
// memory.
func (m *memoryWaiters[K]) wait(now time.Time, user string, lane K, userIdle bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.users[user]
	if w == nil || !w.waits(now) {
		if w != nil {
			m.remove(w)
		}
		w = &waiter[K]{user: user, lane: lane, since: now}
		m.users[user] = w
	}
	if w.lane != lane {
		return
	}
	w.asked, w.userIdle = now, userIdle
	if userIdle && m.first == nil && w.overdue(now) {
		m.first = m.longest(now)
	}
}

// longest returns the lane that has waited longest of those for which memory may be reserved.
func (m *memoryWaiters[K]) longest(now time.Time) (longest *waiter[K]) {
	for _, w := range m.users {
		if w.userIdle && w.waits(now) && (longest == nil || w.since.Before(longest.since)) {
			longest = w
		}
	}
	return longest
}
