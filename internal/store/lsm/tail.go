package lsm

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"posthaste"
	"posthaste/internal/store"
)

// Limits of the tail. A body counts for each event of its message.
const (
	tailEntries = 16 << 10
	tailBytes   = 8 << 20 // as Entry.Size counts them
)

// Limits of a chunk of the tail, which is dropped as a whole. A chunk is full at chunkBytes.
const (
	chunkEntries = 1 << 10
	chunkBytes   = tailBytes / 16
)

// tail holds the last events of all users' logs in memory. Followers of the log all read the
// same few events, and would each read and decode the same blocks. It stays empty while nobody
// follows the log.
//
// It holds every event above its floor: readers of later positions need nothing else, and all
// others read from disk.
type tail struct {
	mu       sync.Mutex
	followed bool
	unread   int // entries added since somebody last followed
	floor    posthaste.Position
	chunks   []tailChunk // ascending, none of them empty
	count    int         // entries of all chunks
	bytes    int
	spare    [][]store.Entry // empty, for commits to reuse: as many as were in use at a time
}

// tailChunk is a part of the tail.
type tailChunk struct {
	entries []store.Entry // ascending; entries never change, so readers need no lock
	bytes   int
}

// isFull reports whether the next entry needs another chunk.
func (c *tailChunk) isFull() bool {
	return len(c.entries) == chunkEntries || c.bytes >= chunkBytes
}

// follow makes commits that begin from now on add their events.
func (t *tail) follow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followed, t.unread = true, 0
}

// begin reports whether a new commit must collect its events, and returns a slice to reuse.
func (t *tail) begin() (followed bool, empty []store.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.spare) - 1; last >= 0 {
		empty, t.spare = t.spare[last], t.spare[:last]
	}
	return t.followed, empty
}

// mostSpare is the largest capacity, in entries, that is kept for another commit.
const mostSpare = 1 << 10

// add adds the events of a durable commit and takes over the slice. complete reports whether
// they are all its events, up to the position last.
func (t *tail) add(entries []store.Entry, complete bool, last posthaste.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unread += len(entries); t.unread > tailEntries {
		t.followed = false // all followers have gone
	}
	if !complete || !t.followed {
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

// forget drops everything, because the store may have deleted some of it.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.chunks) > 0 {
		t.drop()
	}
}

// from returns all events from a position on, one list a chunk. ok is false if the tail does not
// have them all.
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

// Watch implements store.Backend. It returns the end of all users' logs, which is at or above
// each user's last event.
func (s *Store) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	done, err := s.hold()
	if err != nil {
		return 0, nil, err
	}
	defer done()
	s.writer.tail.follow()
	grown := s.writer.grown.next() // before visible is read: a commit in between closes it
	return s.visible(), grown, nil
}
