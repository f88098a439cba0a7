package lsm

import (
	"testing"

	"posthaste"
	"posthaste/internal/store"
)

// TestPageMemoryIsKept has a page without entries come behind one with some.
func TestPageMemoryIsKept(t *testing.T) {
	m := newPageMemory(false)
	entries := make([]store.Entry, 1, 100)
	entries[0].Message = &posthaste.Message{}
	m.messages[posthaste.MessageID{1}] = sizedMessage{}
	m.empty(entries)
	m.empty(nil)
	if cap(m.entries) != cap(entries) || len(m.entries) > 0 || len(m.messages) > 0 {
		t.Errorf("memory for %d entries, with %d of them and %d messages, want %d, 0 and 0",
			cap(m.entries), len(m.entries), len(m.messages), cap(entries))
	}
	if entries[0].Message != nil {
		t.Error("a message is still there")
	}
}
