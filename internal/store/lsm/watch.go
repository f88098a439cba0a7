package lsm

import (
	"context"
	"sync"

	"posthaste"
)

// Watch implements store.Watcher. The end is that of all users' logs: it is at or
// above the last event of each.
func (s *Store) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	done, err := s.hold()
	if err != nil {
		return 0, nil, err
	}
	defer done()
	grown := s.writer.grown.next() // taken first: what is written in between closes it
	return posthaste.Position(s.writer.visible.Load()), grown, nil
}

// broadcast wakes any number of waiters at once. The zero value is ready.
type broadcast struct {
	mu      sync.Mutex
	waiting chan struct{} // closed by the next signal; nil while nobody waits
}

// next returns a channel that is closed by the next signal.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

// signal wakes those who wait. Without any it costs a lock.
func (b *broadcast) signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}
