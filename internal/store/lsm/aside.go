package lsm

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"posthaste"
)

// aside knows the records that could not be read since the store was opened. Such a record
// stays where it is on disk, for Check to name and for somebody to mend; it holds up nothing
// else. It is looked at again at the next start.
type aside struct {
	logger *slog.Logger

	mu   sync.Mutex
	keys map[string]bool
}

// add sets a record aside, and logs that once.
func (a *aside) add(key []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys[string(key)] {
		return
	}
	if a.keys == nil {
		a.keys = map[string]bool{}
	}
	a.keys[string(key)] = true
	const most = 200 // bytes of the key that are shown
	a.logger.Error("store.set_aside", "key", fmt.Sprintf("%x", key[:min(len(key), most)]), "key_bytes", len(key), "error", err)
}

// passedOver reports whether an error tells that a message is damaged, and sets it aside then:
// those who look at many messages do without it.
func (s *Store) passedOver(user string, id posthaste.MessageID, err error) bool {
	if !errors.Is(err, errCorrupt) {
		return false
	}
	s.aside.add(appendMessageKey(nil, segmentEnvelope, user, id), err)
	return true
}

// count returns the number of records that are set aside.
func (a *aside) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.keys)
}
