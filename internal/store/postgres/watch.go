package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// Watch implements store.Watcher.
func (s *Store) Watch(ctx context.Context, user string) (posthaste.Position, <-chan struct{}, error) {
	grown := s.grown.Next() // taken first: what is written in between closes it
	end, err := read(ctx, s, func(ctx context.Context, q querier) (posthaste.Position, error) { return readEnd(ctx, q, user) })
	return end, grown, err
}

// readEnd returns the position of a user's last event, 0 if there was none yet.
func readEnd(ctx context.Context, q querier, user string) (posthaste.Position, error) {
	end, err := row(ctx, q, pgx.RowTo[int64], `SELECT position FROM posthaste.users WHERE user_id = $1`, user)
	return posthaste.Position(end), except(err, store.ErrNotFound)
}

// Wake implements store.Worker.
func (s *Store) Wake() <-chan struct{} { return s.wake }

// changed tells who waits in this process that something was committed.
func (s *Store) changed() {
	s.grown.Send()
	s.signal()
}

// signal says that Claim should be called.
func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// listenEvery is how long it may take at most until a node hears of what others
// have committed.
const listenEvery = 50 * time.Millisecond

// listen tells who waits in this process that other nodes have committed something.
// It asks which transactions are in progress: the answer reads no table, needs no
// session, and is another one after anything was committed.
func (s *Store) listen() {
	ticker := time.NewTicker(listenEvery)
	defer ticker.Stop()
	var heard string
	for {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
		}
		if snapshot, err := s.snapshot(); err == nil && snapshot != heard {
			heard = snapshot
			s.changed()
		}
	}
}

// snapshot tells which transactions are in progress.
func (s *Store) snapshot() (string, error) {
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	return row(ctx, s.vital, pgx.RowTo[string], `SELECT pg_current_snapshot()::text`)
}
