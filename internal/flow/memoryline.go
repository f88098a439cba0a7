package flow

import (
	"sync"
	"time"
)

const (
	// memoryPatience is how long a lane waits for memory before it is kept for it.
	memoryPatience = 3 * time.Second
	// memoryKept is how long it is kept, and how long it is not after that, for it might be
	// for a destination that hangs.
	memoryKept = time.Minute
	// memoryAsked is how long a lane that does not ask again is thought to wait.
	memoryAsked = 10 * time.Second
)

// memoryLine is who waits for memory, of each user the lane that has done so longest. When
// that has waited for memoryPatience, no other lane of its user gets any before it, and once
// the user has none left, nobody does. Its methods may be called at the same time.
type memoryLine[K comparable] struct {
	mu    sync.Mutex
	users map[string]*waiter[K]
	first *waiter[K] // for which memory is kept; nil if for none
}

// waiter is a lane that waits for memory.
type waiter[K comparable] struct {
	user  string
	lane  K
	since time.Time // ahead of now when memory was kept in vain
	asked time.Time // for the last time
	alone bool      // its user had no memory then
}

// overdue reports whether the lane has waited for too long.
func (w *waiter[K]) overdue(now time.Time) bool { return now.Sub(w.since) >= memoryPatience }

// waits reports whether the lane may be thought to wait still. The clock may step.
func (w *waiter[K]) waits(now time.Time) bool { return now.Sub(w.asked).Abs() <= memoryAsked }

// passes reports whether a lane may have memory now, as far as those are concerned who have
// waited for longer.
func (l *memoryLine[K]) passes(now time.Time, user string, lane K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.first; first != nil {
		switch {
		case !first.waits(now):
			l.remove(first)
		case now.Sub(first.since) >= memoryPatience+memoryKept:
			first.since, l.first = now.Add(memoryKept), nil
		case first.user != user:
			return false
		}
	}
	w := l.users[user]
	return w == nil || w.lane == lane || !w.waits(now) || !w.overdue(now)
}

// leave takes a lane out of the line that has what it asked for.
func (l *memoryLine[K]) leave(user string, lane K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.users[user]; w != nil && w.lane == lane {
		l.remove(w)
	}
}

func (l *memoryLine[K]) remove(w *waiter[K]) {
	delete(l.users, w.user)
	if l.first == w {
		l.first = nil
	}
}

// wait puts a lane into the line unless another one of its user is there. Alone says that the
// user has no memory.
func (l *memoryLine[K]) wait(now time.Time, user string, lane K, alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.users[user]
	if w == nil || !w.waits(now) {
		if w != nil {
			l.remove(w)
		}
		w = &waiter[K]{user: user, lane: lane, since: now}
		l.users[user] = w
	}
	if w.lane != lane {
		return
	}
	w.asked, w.alone = now, alone
	if alone && l.first == nil && w.overdue(now) {
		l.first = l.longest(now)
	}
}

// longest returns who has waited longest of those for whom memory may be kept.
func (l *memoryLine[K]) longest(now time.Time) (longest *waiter[K]) {
	for _, w := range l.users {
		if w.alone && w.waits(now) && (longest == nil || w.since.Before(longest.since)) {
			longest = w
		}
	}
	return longest
}
