package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store/postgres/node"
)

// deadNodes is a query for the dead nodes that have leases.
const deadNodes = `ARRAY(
	SELECT node FROM posthaste.nodes n WHERE expires_at <= clock_timestamp()
		AND EXISTS (SELECT FROM posthaste.live l WHERE l.node = n.node AND l.node <> 0 OFFSET 0))`

// beat sends a heartbeat, and wakes the engine if a node has died whose leases it can release.
func (s *Store) beat() {
	if s.node.Beat(s.closing); s.node.Away() {
		return
	}
	ctx, cancel := context.WithTimeout(s.closing, pollTime)
	defer cancel()
	if dead, err := row(ctx, s.control, pgx.RowTo[bool], `SELECT cardinality(`+deadNodes+`) > 0`); err == nil && dead {
		s.signal()
	}
}

// reapDeadNodes releases the leases of dead nodes: their messages are due again. A locked user
// delays only their own messages.
func (s *Store) reapDeadNodes(ctx context.Context, now time.Time) error {
	dead, err := rows(ctx, s.pool, pgx.RowTo[int64], `SELECT node FROM posthaste.nodes WHERE expires_at <= clock_timestamp()`)
	if err != nil || len(dead) == 0 {
		return err
	}
	s.grown.addAll()
	users, err := rows(ctx, s.pool, pgx.RowTo[string], `SELECT DISTINCT user_id FROM posthaste.live WHERE node = ANY($1) AND node <> 0`, dead)
	if err != nil {
		return err
	}
	if _, err := s.forEachUser(ctx, now, users, func(tx *tx, user string) error { return tx.releaseOfNodes(user, dead) }); err != nil {
		return fmt.Errorf("make void what dead nodes have: %w", err)
	}
	_, err = s.pool.Exec(ctx, `
		DELETE FROM posthaste.nodes n
		WHERE node = ANY($1) AND expires_at < clock_timestamp() - $2::interval
			AND NOT EXISTS (SELECT FROM posthaste.live l WHERE l.node = n.node AND l.node <> 0)`, dead, node.GraveTime)
	return err
}

func (tx *tx) releaseOfNodes(user string, dead []int64) error {
	held, err := tx.findLive(`user_id = $1 AND node = ANY($2) AND node <> 0`, user, dead)
	if err != nil {
		return err
	}
	for _, l := range held {
		tx.release(l)
	}
	return nil
}
