package lsm

import (
	"context"

	"posthaste"
	"posthaste/internal/store"
)

// Watch implements store.Watcher. The end is that of all users' logs: it is at or
// above the last event of each.
func (s *Store) Watch(context.Context, string) (posthaste.Position, <-chan struct{}, error) {
	done, err := s.hold()
	if err != nil {
		return 0, nil, err
	}
	defer done()
	s.writer.tail.want()
	grown := s.writer.grown.next() // taken first: what is written in between closes it
	return s.visible(), grown, nil
}

// Latest implements store.Watcher.
func (s *Store) Latest(_ context.Context, user string, query store.EventQuery) (page store.EventPage, ok bool, err error) {
	done, err := s.hold()
	if err != nil {
		return store.EventPage{}, false, err
	}
	defer done()
	return s.readLatest(user, query)
}
