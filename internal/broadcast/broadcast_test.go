package broadcast_test

import (
	"testing"

	"posthaste/internal/broadcast"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestSignal(t *testing.T) {
	var s broadcast.Signal
	s.Send() // nobody waits
	first, other := s.Next(), s.Next()
	if isClosed(first) || isClosed(other) {
		t.Error("woken by a Send of before")
	}
	s.Send()
	next := s.Next()
	if !isClosed(first) || !isClosed(other) {
		t.Error("a waiter was not woken")
	}
	if isClosed(next) {
		t.Error("woken by a Send of before")
	}
}
