package lsm

import (
	"cmp"
	"slices"
	"sync"

	"posthaste"
	"posthaste/internal/store"
)

// Bounds of what the tail holds.
const (
	tailEntries = 16 << 10
	tailBytes   = 8 << 20 // as Entry.Size counts them; a body counts for each event of its message
)

// tail is the end of the log in memory, of all users, as the commits made it. Those
// who follow the log all read the same few events, and would each read and decode the
// same blocks of them. Nothing is gathered while nobody has asked for the end of the log.
//
// It holds every event above its floor, so whoever reads from there on needs nothing
// else; all others read what is stored.
type tail struct {
	mu      sync.Mutex
	wanted  bool
	unread  int // entries added since it was last wanted
	floor   posthaste.Position
	entries []store.Entry // ascending; those that are there do not change, so readers need no lock
	bytes   int
}

// want has the events of commits that begin from now on gathered.
func (t *tail) want() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted, t.unread = true, 0
}

// isWanted reports whether a commit is to bring its events.
func (t *tail) isWanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wanted
}

// add adds the events of a commit that is durable. gathered tells whether these are
// all events up to the last position.
func (t *tail) add(entries []store.Entry, gathered bool, last posthaste.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unread += len(entries); t.unread > tailEntries {
		t.wanted = false // who followed has gone
	}
	if !gathered || !t.wanted {
		t.entries, t.bytes, t.floor = nil, 0, last
		return
	}
	t.entries = append(t.entries, entries...)
	for i := range entries {
		t.bytes += entries[i].Size()
	}
	if len(t.entries) > 2*tailEntries || t.bytes > 2*tailBytes {
		t.shorten()
	}
}

// shorten drops what is beyond the bounds. It is called when there is twice as much, so
// that the rest is moved seldom.
func (t *tail) shorten() {
	kept, bytes := 0, 0
	for i := len(t.entries) - 1; i >= 0 && kept < tailEntries; i-- {
		more := t.entries[i].Size()
		if bytes+more > tailBytes {
			break
		}
		bytes += more
		kept++
	}
	cut := len(t.entries) - kept
	t.floor = t.entries[cut-1].Position
	t.entries, t.bytes = slices.Clone(t.entries[cut:]), bytes
}

// forget drops everything: some of it may have been removed from the store.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.entries); n > 0 {
		t.floor = t.entries[n-1].Position
		t.entries, t.bytes = nil, 0
	}
}

// from returns all events from a position on. ok is false if it does not have them
// all.
func (t *tail) from(low posthaste.Position) (entries []store.Entry, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if low <= t.floor {
		return nil, false
	}
	at, _ := slices.BinarySearchFunc(t.entries, low, func(e store.Entry, p posthaste.Position) int {
		return cmp.Compare(e.Position, p)
	})
	return t.entries[at:], true
}
