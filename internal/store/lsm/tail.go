package lsm

import (
	"cmp"
	"slices"
	"sync"

	"posthaste"
	"posthaste/internal/store"
)

// Bounds of what the tail holds. A body counts for each event of its message.
const (
	tailEntries = 16 << 10
	tailBytes   = 8 << 20 // as Entry.Size counts them
)

// Bounds of a chunk of the tail, which is dropped as a whole. The bytes are those at which
// a chunk is full.
const (
	chunkEntries = 1 << 10
	chunkBytes   = tailBytes / 16
)

// tail is the end of the log in memory, of all users, as the commits made it. Those
// who follow the log all read the same few events, and would each read and decode the
// same blocks of them. Nothing is gathered while nobody has asked for the end of the log.
//
// It holds every event above its floor, so whoever reads from there on needs nothing
// else; all others read what is stored.
type tail struct {
	mu     sync.Mutex
	wanted bool
	unread int // entries added since it was last wanted
	floor  posthaste.Position
	chunks []tailChunk // ascending, none of them empty
	count  int         // entries of all chunks
	bytes  int
	spare  [][]store.Entry // empty, for commits to gather in: as many as there were at a time
}

// tailChunk is a part of the tail.
type tailChunk struct {
	entries []store.Entry // ascending; those that are there do not change, so readers need no lock
	bytes   int
}

// isFull reports whether what comes next belongs to another chunk.
func (c *tailChunk) isFull() bool {
	return len(c.entries) == chunkEntries || c.bytes >= chunkBytes
}

// want has the events of commits that begin from now on gathered.
func (t *tail) want() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted, t.unread = true, 0
}

// begin tells a commit whether it is to bring its events, and what it may gather them in.
func (t *tail) begin() (wanted bool, empty []store.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.spare) - 1; last >= 0 {
		empty, t.spare = t.spare[last], t.spare[:last]
	}
	return t.wanted, empty
}

// mostSpare is how many entries a commit may have that leaves room for those of another.
const mostSpare = 1 << 10

// add adds the events of a commit that is durable, and takes what they are gathered in.
// gathered tells whether these are all events up to the last position.
func (t *tail) add(entries []store.Entry, gathered bool, last posthaste.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unread += len(entries); t.unread > tailEntries {
		t.wanted = false // who followed has gone
	}
	if !gathered || !t.wanted {
		t.chunks, t.count, t.bytes, t.floor = nil, 0, 0, last
		return
	}
	for i := range entries {
		t.push(&entries[i])
	}
	for t.count > tailEntries || t.bytes > tailBytes {
		t.drop()
	}
	if cap(entries) <= mostSpare {
		clear(entries)
		t.spare = append(t.spare, entries[:0])
	}
}

// push adds an entry to the last chunk, or to a new one if that is full.
func (t *tail) push(e *store.Entry) {
	last := len(t.chunks) - 1
	if last < 0 || t.chunks[last].isFull() {
		t.chunks = append(t.chunks, tailChunk{entries: make([]store.Entry, 0, chunkEntries)})
		last++
	}
	chunk, size := &t.chunks[last], e.Size()
	chunk.entries = append(chunk.entries, *e)
	chunk.bytes += size
	t.bytes += size
	t.count++
}

// drop drops the first chunk.
func (t *tail) drop() {
	first := t.chunks[0]
	t.chunks = slices.Delete(t.chunks, 0, 1)
	t.bytes -= first.bytes
	t.count -= len(first.entries)
	t.floor = first.entries[len(first.entries)-1].Position
}

// forget drops everything: some of it may have been removed from the store.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.chunks) > 0 {
		t.drop()
	}
}

// from returns all events from a position on, in as many lists as there are chunks of them.
// ok is false if it does not have them all.
func (t *tail) from(low posthaste.Position) (lists [][]store.Entry, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if low <= t.floor {
		return nil, false
	}
	for i := len(t.chunks) - 1; i >= 0; i-- {
		entries := t.chunks[i].entries
		at, _ := slices.BinarySearchFunc(entries, low, func(e store.Entry, p posthaste.Position) int {
			return cmp.Compare(e.Position, p)
		})
		lists = append(lists, entries[at:])
		if at > 0 {
			break
		}
	}
	slices.Reverse(lists)
	return lists, true
}
