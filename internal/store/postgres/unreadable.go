package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"posthaste/internal/store"
)

// unreadableError lists messages whose envelopes are damaged or missing.
type unreadableError map[messageOf]error

func (e unreadableError) Error() string {
	var all []error
	for m, err := range e {
		all = append(all, fmt.Errorf("message %s of user %q: %w", m.id, m.user, err))
	}
	return errors.Join(all...).Error()
}

// Is reports that it is a store.ErrUnreadable.
func (unreadableError) Is(target error) bool { return target == store.ErrUnreadable }

// setAside lists the rows that this node could not read. They stay stored, for Check to name
// and for somebody to repair. Claims skip the messages until the node restarts; queues and
// flow-control keys count as paused until they can be read.
type setAside struct {
	mu       sync.Mutex
	messages map[messageOf]bool
	records  map[string]bool // by what is wrong with them, which names them
}

// add sets messages aside, and logs each once.
func (s *setAside) add(unreadable unreadableError, logger *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m, err := range unreadable {
		if !s.messages[m] {
			s.messages[m] = true
			logger.Error("store.set_aside", "message_id", m.id.String(), "user", m.user, "error", err)
		}
	}
}

func (s *setAside) ids() [][16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([][16]byte, 0, len(s.messages))
	for m := range s.messages {
		ids = append(ids, m.id)
	}
	return ids
}

// addRecord sets a record aside, and logs it once.
func (s *setAside) addRecord(damage error, logger *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.records[damage.Error()] {
		s.records[damage.Error()] = true
		logger.Error("store.set_aside", "error", damage)
	}
}

func (s *setAside) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.messages) + len(s.records)
}
