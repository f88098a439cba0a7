package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste/internal/store"
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
var errSessionExpired = errors.New("postgres: this node did not say in time that it lives")

// node is this process among the nodes of the database.
type node struct {
	session atomic.Pointer[nodeSession]
	clock   clock
}

// number is the one that the node has at the moment; 0: none yet.
func (n *node) number() int64 {
	if t := n.session.Load(); t != nil {
		return t.node
	}
	return 0
}

// leave gives up all leases: the node counts as dead from now on.
func (n *node) leave(ctx context.Context, pool *pgxpool.Pool) error {
	n.session.Load().stop()
	ctx, cancel := context.WithTimeout(ctx, aliveEvery)
	defer cancel()
	_, err := pool.Exec(ctx, `UPDATE posthaste.nodes SET expires_at = clock_timestamp() WHERE node = $1`, n.number())
	return err
}

// renew says that the node lives. One that was taken for dead, or counts itself among
// them, has lost its leases and joins anew.
func (s *Store) renew(ctx context.Context) error {
	t := s.node.session.Load()
	if t.alive() {
		said := time.Now()
		there, err := row(ctx, s.control, pgx.RowTo[time.Time], `
			UPDATE posthaste.nodes SET expires_at = clock_timestamp() + $2::interval
			WHERE node = $1 AND expires_at > clock_timestamp() RETURNING clock_timestamp()`, t.node, leaseTime)
		if ignore(err, store.ErrNotFound) != nil {
			return err
		}
		if err == nil {
			if err := s.node.clock.compare(said, there); err != nil {
				t.expire()
				return err
			}
			if t.renew(said) {
				return nil
			}
		}
	}
	t.expire()
	return s.joinCluster(ctx, t)
}

// joinNodes takes a number that no node ever had, in place of the one that was lost, of
// which it ends what is left; nil: there was none. Of two calls at once, the number of one
// is not used. A node whose clock is wrong does not join.
func (s *Store) joinCluster(ctx context.Context, lost *nodeSession) error {
	if err := s.askClock(ctx); err != nil {
		return err
	}
	said := time.Now()
	var before, number int64
	if lost != nil {
		before = lost.node
	}
	err := s.control.QueryRow(ctx, `
		WITH lost AS (
			UPDATE posthaste.nodes SET expires_at = least(expires_at, clock_timestamp()) WHERE node = $3)
		INSERT INTO posthaste.nodes (node, expires_at, known)
		VALUES (nextval('posthaste.tokens'), clock_timestamp() + $1::interval, $2)
		RETURNING node`, leaseTime, len(s.schema), before).Scan(&number)
	if err != nil {
		return err
	}
	t := newNodeSession(number, said, func() {
		s.logger.Warn("node.silent", "consequence", "what it had claimed may be claimed by others, and its attempts have ended")
	})
	if !s.node.session.CompareAndSwap(lost, t) {
		t.stop()
		return nil
	}
	if s.joined != nil {
		s.joined(number)
	}
	s.logger.Info("node.joined")
	return nil
}

// askClock compares the clock of this node with that of the database.
func (s *Store) askClock(ctx context.Context) error {
	said := time.Now()
	there, err := row(ctx, s.control, pgx.RowTo[time.Time], `SELECT clock_timestamp()`)
	if err != nil {
		return err
	}
	return s.node.clock.compare(said, there)
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
			s.renewWithRetry()
		}
	}
}

// speak renews, for as long as it is not time for the next renewal.
func (s *Store) renewWithRetry() {
	ctx, cancel := context.WithTimeout(s.closing, aliveEvery)
	defer cancel()
	for {
		err := s.renew(ctx)
		if err == nil || errors.Is(err, store.ErrClock) || s.closing.Err() != nil {
			return // a clock that is wrong is told by itself
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
// again, or cancelled if that was asked for. What keeps it from those of one user keeps it
// from those of nobody else.
func (s *Store) reapDeadNodes(ctx context.Context, now time.Time) error {
	dead, err := rows(ctx, s.pool, pgx.RowTo[int64], `SELECT node FROM posthaste.nodes WHERE expires_at <= clock_timestamp()`)
	if err != nil || len(dead) == 0 {
		return err
	}
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
			AND NOT EXISTS (SELECT FROM posthaste.live l WHERE l.node = n.node AND l.node <> 0)`, dead, graveTime)
	return err
}

// void ends what leases dead nodes have on a user's messages.
func (tx *tx) releaseOfNodes(user string, dead []int64) error {
	held, err := tx.findLive(`user_id = $1 AND node = ANY($2) AND node <> 0`, user, dead)
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

// ownTime is how long a node counts on its leases after it last said that it lives. Then
// it ends its attempts, which leaves them a second before others may make them.
const sessionTime = leaseTime - time.Second

// tenure is this process under one of the numbers it has among the nodes. It lapses by
// the process's own clock, which goes on while the process does not, and whether or not
// the database can be asked. One that has lapsed does not come back.
type nodeSession struct {
	node      int64
	ctx       context.Context // ends when the tenure lapses
	expire    func()          // lets it lapse; what is told of that is told once
	mu        sync.Mutex
	expiresAt time.Time
	timer     *time.Timer
}

// newTenure returns that of a node which said at a time that it lives. Silent is called
// when it lapses.
func newNodeSession(node int64, said time.Time, silent func()) *nodeSession {
	t := &nodeSession{node: node, expiresAt: said.Add(sessionTime)}
	held, lapse := context.WithCancel(context.Background())
	t.ctx = held
	t.expire = sync.OnceFunc(func() {
		lapse()
		silent()
	})
	t.timer = time.AfterFunc(time.Until(t.expiresAt), t.expire)
	return t
}

// lives reports whether the tenure goes on, by the clock: a timer may be late.
func (t *nodeSession) alive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aliveLocked()
}

func (t *nodeSession) aliveLocked() bool {
	if t.ctx.Err() == nil && !time.Now().Before(t.expiresAt) {
		t.expire()
	}
	return t.ctx.Err() == nil
}

// extend notes that the node said at a time that it lives, and reports whether that came
// before the tenure had lapsed.
func (t *nodeSession) renew(said time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := said.Add(sessionTime); t.aliveLocked() && until.After(t.expiresAt) {
		t.expiresAt = until
		t.timer.Reset(time.Until(until))
	}
	return t.aliveLocked()
}

// forget lets the tenure pass without a word: nobody counts on it.
func (t *nodeSession) stop() { t.timer.Stop() }
