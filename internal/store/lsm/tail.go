package lsm

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"posthaste"
	"posthaste/internal/store"
)

// Limits of the tail, as Entry.Size counts bytes: a body counts for each event of its message. When one
// is reached, the older half is dropped.
const (
	tailEntries = 16 << 10
	tailBytes   = 8 << 20
)

// tail holds the last events of all users' logs in memory. Those who follow a log read the same few
// events soon after they were written, and would read and decode their blocks. It stays empty while
// nobody follows the log.
//
// It holds every event above its floor: readers of later positions need nothing else, and all
// others read from disk.
type tail struct {
	mu       sync.Mutex
	followed bool
	unread   int // entries added since somebody last followed
	floor    posthaste.Position
	entries  []store.Entry // ascending; they never change, so readers need no lock
	bytes    int
}

// follow makes commits that begin from now on add their events.
func (t *tail) follow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followed, t.unread = true, 0
}

// begin reports whether a new commit must collect its events.
func (t *tail) begin() (followed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.followed
}

// add adds the events of a durable commit. complete reports whether they are all its events, up to the
// position last.
func (t *tail) add(entries []store.Entry, complete bool, last posthaste.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unread += len(entries); t.unread > tailEntries {
		t.followed = false // all followers have gone
	}
	if !complete || !t.followed {
		t.entries, t.bytes, t.floor = nil, 0, last
		return
	}
	t.entries = append(t.entries, entries...)
	for i := range entries {
		t.bytes += entries[i].Size()
	}
	if len(t.entries) > tailEntries || t.bytes > tailBytes {
		t.drop(tailEntries/2, tailBytes/2)
	}
}

// drop drops the oldest entries until no more than some are left, in new memory.
func (t *tail) drop(most, mostBytes int) {
	n := 0
	for ; len(t.entries)-n > most || t.bytes > mostBytes; n++ {
		t.bytes -= t.entries[n].Size()
		t.floor = t.entries[n].Position
	}
	t.entries = slices.Clone(t.entries[n:])
}

// forget drops everything, because the store may have deleted some of it.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(0, 0)
}

// from returns all events from a position on. ok is false if the tail does not have them all.
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

// WatchSeveral implements store.Divisible. All users have the same end: see CloseLogs.
func (s *Store) WatchSeveral(ctx context.Context, users []string) (end posthaste.Position, grown []<-chan struct{}, err error) {
	end, any, err := s.Watch(ctx, "")
	return end, []<-chan struct{}{any}, err
}

// CloseLogs implements store.Divisible. Positions ascend over all users, so nothing is to be done.
func (s *Store) CloseLogs(context.Context, []string, posthaste.Position) (posthaste.Position, error) {
	return s.visible(), nil
}

// Division implements store.Divisible. It never changes.
func (s *Store) Division() store.Division { return store.Division{Partitions: s.partitions} }

// Reading implements store.Divisible.
func (s *Store) Reading(context.Context) (store.Division, func(*error), error) {
	return s.Division(), func(*error) {}, nil
}

// DivisionOf implements store.Divisible.
func (s *Store) DivisionOf(context.Context, string, bool) (store.Division, error) {
	return s.Division(), nil
}
