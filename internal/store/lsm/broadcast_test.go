package lsm

import "testing"

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestBroadcast(t *testing.T) {
	var b broadcast
	b.send() // nobody waits
	first, other := b.next(), b.next()
	if isClosed(first) || isClosed(other) {
		t.Error("woken by a send of before")
	}
	b.send()
	next := b.next()
	if !isClosed(first) || !isClosed(other) {
		t.Error("a waiter was not woken")
	}
	if isClosed(next) {
		t.Error("woken by a send of before")
	}
}
