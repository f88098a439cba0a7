package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A node that falls silent loses its leases after leaseTime; it speaks three times
// as often. Its row stays for graveTime, so that leases are found that it took in a
// transaction which was longer than it lived.
const (
	leaseTime  = 10 * time.Second
	aliveEvery = leaseTime / 3
	graveTime  = time.Hour
)

// errSilent says that this node was taken for dead, and must not claim anything.
var errSilent = errors.New("postgres: this node did not say in time that it lives")

// node is this process among the nodes of the database.
type node struct {
	id atomic.Int64
}

// join takes a number that no node ever had, in place of the one that was lost. It reports
// whether that is this node's now: of two calls at once, the number of one is not used.
func (n *node) join(ctx context.Context, pool *pgxpool.Pool, lost int64, known int) (bool, error) {
	id, err := row(ctx, pool, pgx.RowTo[int64], `
		INSERT INTO posthaste.nodes (node, expires_at, known)
		VALUES (nextval('posthaste.tokens'), clock_timestamp() + $1::interval, $2)
		RETURNING node`, leaseTime, known)
	return err == nil && n.id.CompareAndSwap(lost, id), err
}

// leave gives up all leases: the node counts as dead from now on.
func (n *node) leave(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, aliveEvery)
	defer cancel()
	_, err := pool.Exec(ctx, `UPDATE posthaste.nodes SET expires_at = clock_timestamp() WHERE node = $1`, n.id.Load())
	return err
}

// renew says that the node lives. One that was taken for dead has lost its leases
// and joins anew.
func (s *Store) renew(ctx context.Context) error {
	id := s.node.id.Load()
	tag, err := s.vital.Exec(ctx, `
		UPDATE posthaste.nodes SET expires_at = clock_timestamp() + $2::interval
		WHERE node = $1 AND expires_at > clock_timestamp()`, id, leaseTime)
	if err != nil || tag.RowsAffected() > 0 {
		return err
	}
	s.logger.Warn("node.silent", "consequence", "what it had claimed may be claimed by others")
	return s.joinNodes(ctx, id)
}

// joinNodes takes a number in place of the one that was lost; 0: there was none.
func (s *Store) joinNodes(ctx context.Context, lost int64) error {
	known, err := s.schema.version()
	if err != nil {
		return err
	}
	joined, err := s.node.join(ctx, s.vital, lost, known)
	if err != nil || !joined {
		return err
	}
	if s.joined != nil {
		s.joined(s.node.id.Load())
	}
	s.logger.Info("node.joined")
	return nil
}

// keepAlive renews this node's right to its leases until the store is closed. A
// renewal that fails is tried again soon; there is nobody to be told.
func (s *Store) keepAlive() {
	ticker := time.NewTicker(aliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
			s.speak()
		}
	}
}

// speak renews, for as long as it is not time for the next renewal.
func (s *Store) speak() {
	ctx, cancel := context.WithTimeout(s.closing, aliveEvery)
	defer cancel()
	for {
		err := s.renew(ctx)
		if err == nil || s.closing.Err() != nil {
			return
		}
		s.logger.Warn("node.unheard", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(aliveEvery / 5):
		}
	}
}

// reap makes the leases of nodes that have fallen silent void: their messages are due
// again, or cancelled if that was asked for.
func (s *Store) reap(ctx context.Context, now time.Time) error {
	dead, err := rows(ctx, s.pool, pgx.RowTo[int64], `SELECT node FROM posthaste.nodes WHERE expires_at <= clock_timestamp()`)
	if err != nil || len(dead) == 0 {
		return err
	}
	users, err := rows(ctx, s.pool, pgx.RowTo[string], `SELECT DISTINCT user_id FROM posthaste.live WHERE node = ANY($1) AND node <> 0`, dead)
	if err != nil {
		return err
	}
	for _, user := range users {
		if err := s.change(ctx, now, []string{user}, wants{}, func(tx *tx) error { return tx.void(user, dead) }); err != nil {
			return err
		}
	}
	_, err = s.pool.Exec(ctx, `
		DELETE FROM posthaste.nodes n
		WHERE node = ANY($1) AND expires_at < clock_timestamp() - $2::interval
			AND NOT EXISTS (SELECT FROM posthaste.live l WHERE l.node = n.node AND l.node <> 0)`, dead, graveTime)
	return err
}

// void ends what leases dead nodes have on a user's messages.
func (tx *tx) void(user string, dead []int64) error {
	held, err := tx.livesOf(`user_id = $1 AND node = ANY($2) AND node <> 0`, user, dead)
	if err != nil {
		return err
	}
	for _, l := range held {
		if err := tx.release(l); err != nil {
			return err
		}
	}
	return nil
}
