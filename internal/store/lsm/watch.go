package lsm

import (
	"context"

	"posthaste"
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
