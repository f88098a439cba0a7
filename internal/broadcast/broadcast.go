// Package broadcast wakes any number of waiters at once, however many there are and
// whether or not anybody waits.
package broadcast

import "sync"

// Signal is something that happens again and again and can be waited for. The zero
// value is ready.
type Signal struct {
	mu      sync.Mutex
	waiting chan struct{} // closed by the next Send; nil while nobody waits
}

// Next returns a channel that is closed by the next Send.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(chan struct{})
	}
	return s.waiting
}

// Send wakes those who wait. Without any it costs a lock.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
}
