package lsm

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"posthaste"
)

// unreadableRecords are the keys of records that could not be read since the store was opened.
// The store skips such a record, leaves it on disk for Check to report, and reads it again at the
// next start.
type unreadableRecords struct {
	logger *slog.Logger

	mu   sync.Mutex
	keys map[string]bool
}

// add adds a record, and logs it once.
func (u *unreadableRecords) add(key []byte, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys[string(key)] {
		return
	}
	if u.keys == nil {
		u.keys = map[string]bool{}
	}
	u.keys[string(key)] = true
	const most = 200 // bytes of the key that are shown
	u.logger.Error("store.set_aside", "key", fmt.Sprintf("%x", key[:min(len(key), most)]), "key_bytes", len(key), "error", err)
}

// passedOver reports whether err says that a message is damaged, and then adds it to the
// unreadable records: callers that read many messages skip it.
func (s *Store) passedOver(user string, id posthaste.MessageID, err error) bool {
	if !errors.Is(err, errCorrupt) {
		return false
	}
	s.unreadable.add(appendMessageKey(nil, segmentEnvelope, user, id), err)
	return true
}

// count returns the number of unreadable records.
func (u *unreadableRecords) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.keys)
}
