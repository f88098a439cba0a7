package lsm

import "sync"

// broadcast is something that happens again and again, and wakes all who wait for it. The
// zero value is ready.
type broadcast struct {
	mu      sync.Mutex
	waiting chan struct{} // closed by the next send; nil while nobody waits
}

// next returns a channel that is closed by the next send.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

// send wakes those who wait. Without any it costs a lock.
func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}
