package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// unreadableError tells of messages whose envelopes are damaged or missing.
type unreadableError map[messageOf]error

// Error returns a sentence for each of them.
func (e unreadableError) Error() string {
	var all []error
	for m, err := range e {
		all = append(all, fmt.Errorf("message %s of user %q: %w", m.id, m.user, err))
	}
	return errors.Join(all...).Error()
}

// setAside knows the messages that this node could not read. Their rows stay as they are, for
// Check to name and for somebody to mend, and claims pass over them until the node starts
// again.
type setAside struct {
	mu       sync.Mutex
	messages map[messageOf]bool
}

// add sets messages aside, and logs that once.
func (s *setAside) add(unreadable unreadableError, logger *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.messages == nil {
		s.messages = map[messageOf]bool{}
	}
	for m, err := range unreadable {
		if !s.messages[m] {
			s.messages[m] = true
			logger.Error("store.set_aside", "message_id", m.id.String(), "user", m.user, "error", err)
		}
	}
}

// ids returns the ids of all messages that are set aside.
func (s *setAside) ids() [][16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([][16]byte, 0, len(s.messages))
	for m := range s.messages {
		ids = append(ids, m.id)
	}
	return ids
}
