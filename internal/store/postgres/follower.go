package postgres

import (
	"maps"
	"math"
	"slices"
	"sync"

	"posthaste"
)

// followers are who waits in this process for the logs of users to grow.
type followers struct {
	mu sync.Mutex
	of map[string]*following
}

// following is who waits for one log. It ends when they are woken.
type following struct {
	grown chan struct{}
	read  posthaste.Position // the least end of the log that one of them knows
	heard posthaste.Position // the end that was heard of last, while they waited
}

// join returns what is closed when the log of a user has grown. Whoever joins then reads
// the end of the log, and calls know.
func (f *followers) join(user string) *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]*following{}
	}
	if f.of[user] == nil {
		f.of[user] = &following{grown: make(chan struct{}), read: math.MaxInt64}
	}
	return f.of[user]
}

// know notes which end of the log one of those who wait has read. It wakes them if what was
// heard since is beyond that.
func (f *followers) know(user string, who *following, end posthaste.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	who.read = min(who.read, end)
	if who.heard > who.read && f.of[user] == who {
		f.wakeLocked(user)
	}
}

// hear wakes those for whom a log has grown, which ends at a position.
func (f *followers) hear(user string, end posthaste.Position) {
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
func (f *followers) wake(users ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, user := range users {
		f.wakeLocked(user)
	}
}

func (f *followers) wakeAll() { f.wake(f.users()...) }

func (f *followers) wakeLocked(user string) {
	if who := f.of[user]; who != nil {
		close(who.grown)
		delete(f.of, user)
	}
}

// users returns those for whose logs somebody waits.
func (f *followers) users() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(f.of)) // never NULL
}
