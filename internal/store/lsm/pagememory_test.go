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

// TestPageThatIsNotLent has a page be left to who asked for it, and others be gathered behind
// it.
func TestPageThatIsNotLent(t *testing.T) {
	m := newPageMemory(false)
	gathered := append(m.entries, store.Entry{Message: &posthaste.Message{}})
	own := m.leave(gathered)
	if len(own) != 1 || own[0].Message == nil {
		t.Fatalf("the page has %v", own)
	}
	if gathered[0].Message != nil {
		t.Error("a message is still where it was gathered")
	}
	if own := newPageMemory(false).leave(nil); own != nil {
		t.Errorf("a page without entries has %v", own)
	}
}
