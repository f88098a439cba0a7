package postgres

import (
	"maps"
	"math"
	"slices"
	"sync"

	"posthaste"
)

// followers are who waits in this process for the logs of users to grow.
type logWaiters struct {
	mu sync.Mutex
	of map[string]*logWaiter
}

// following is who waits for one log. It ends when they are woken.
type logWaiter struct {
	grown chan struct{}
	read  posthaste.Position // the least end of the log that one of them knows
	heard posthaste.Position // the end that was heard of last, while they waited
}

// join returns what is closed when the log of a user has grown. Whoever joins then reads
// the end of the log, and calls know.
func (f *logWaiters) join(user string) *logWaiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]*logWaiter{}
	}
	if f.of[user] == nil {
		f.of[user] = &logWaiter{grown: make(chan struct{}), read: math.MaxInt64}
	}
	return f.of[user]
}

// know notes which end of the log one of those who wait has read. It wakes them if what was
// heard since is beyond that.
func (f *logWaiters) setRead(user string, who *logWaiter, end posthaste.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	who.read = min(who.read, end)
	if who.heard > who.read && f.of[user] == who {
		f.wakeLocked(user)
	}
}

// hear wakes those for whom a log has grown, which ends at a position.
func (f *logWaiters) notify(user string, end posthaste.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	who := f.of[user]
	if who == nil {
		return
	}
	who.heard = max(who.heard, end)
	if who.heard > who.read {
		f.wakeLocked(user)
	}
}

// wake wakes who waits for the logs of some users.
func (f *logWaiters) wake(users ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, user := range users {
		f.wakeLocked(user)
	}
}

func (f *logWaiters) wakeAll() { f.wake(f.users()...) }

func (f *logWaiters) wakeLocked(user string) {
	if who := f.of[user]; who != nil {
		close(who.grown)
		delete(f.of, user)
	}
}

// users returns those for whose logs somebody waits.
func (f *logWaiters) users() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(f.of)) // never NULL
}
