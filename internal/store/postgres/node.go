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

// A node loses its leases leaseTime after its last heartbeat; it sends three in that time. Its
// row stays for graveTime, to find leases that it took in a transaction longer than its life.
const (
	leaseTime  = 10 * time.Second
	aliveEvery = leaseTime / 3
	graveTime  = time.Hour
)

// errSessionExpired says that this node counts as dead and must not claim.
var errSessionExpired = errors.New("postgres: the session of this node has expired")

type node struct {
	session atomic.Pointer[nodeSession]
	clock   clock
}

// number is the node's number, 0 before it has one.
func (n *node) number() int64 {
	if t := n.session.Load(); t != nil {
		return t.node
	}
	return 0
}

// leave gives up all leases.
func (n *node) leave(ctx context.Context, pool *pgxpool.Pool) error {
	n.session.Load().stop()
	ctx, cancel := context.WithTimeout(ctx, aliveEvery)
	defer cancel()
	_, err := pool.Exec(ctx, `UPDATE posthaste.nodes SET expires_at = clock_timestamp() WHERE node = $1`, n.number())
	return err
}

// renew sends a heartbeat. A node whose session expired joins again under a new number.
func (s *Store) renew(ctx context.Context) error {
	t := s.node.session.Load()
	if t.alive() {
		sentAt := time.Now()
		there, err := row(ctx, s.control, pgx.RowTo[time.Time], `
			UPDATE posthaste.nodes SET expires_at = clock_timestamp() + $2::interval
			WHERE node = $1 AND expires_at > clock_timestamp() RETURNING clock_timestamp()`, t.node, leaseTime)
		if ignore(err, store.ErrNotFound) != nil {
			return err
		}
		if err == nil {
			if err := s.node.clock.compare(sentAt, there); err != nil {
				t.expire()
				return err
			}
			if t.renew(sentAt) {
				return nil
			}
		}
	}
	t.expire()
	return s.joinCluster(ctx, t)
}

// joinCluster starts a session under a new number, in place of the lost one, which may be nil.
// Of two concurrent calls, one number stays unused. A node whose clock is wrong does not join.
func (s *Store) joinCluster(ctx context.Context, lost *nodeSession) error {
	if err := s.askClock(ctx); err != nil {
		return err
	}
	sentAt := time.Now()
	var before, number int64
	if lost != nil {
		before = lost.node
	}
	err := s.control.QueryRow(ctx, `
		WITH lost AS (
			UPDATE posthaste.nodes SET expires_at = least(expires_at, clock_timestamp()) WHERE node = $3)
		INSERT INTO posthaste.nodes (node, expires_at, known)
		VALUES (nextval('posthaste.tokens'), clock_timestamp() + $1::interval, $2)
		RETURNING node`, leaseTime, len(s.migrations), before).Scan(&number)
	if err != nil {
		return err
	}
	t := newNodeSession(number, sentAt, func() {
		s.logger.Warn("node.silent", "consequence", "other nodes may claim its messages; its attempts were ended")
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

// askClock compares this node's clock with the database's.
func (s *Store) askClock(ctx context.Context) error {
	sentAt := time.Now()
	there, err := row(ctx, s.control, pgx.RowTo[time.Time], `SELECT clock_timestamp()`)
	if err != nil {
		return err
	}
	return s.node.clock.compare(sentAt, there)
}

// keepAlive sends heartbeats until the store is closed.
func (s *Store) keepAlive() { s.repeat(aliveEvery, s.renewWithRetry) }

// repeat does work at an interval until the store is closed.
func (s *Store) repeat(interval time.Duration, work func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
			work()
		}
	}
}

// renewWithRetry retries until the next heartbeat is due.
func (s *Store) renewWithRetry() {
	ctx, cancel := context.WithTimeout(s.closing, aliveEvery)
	defer cancel()
	for {
		err := s.renew(ctx)
		if err == nil || errors.Is(err, store.ErrClock) || s.closing.Err() != nil {
			return // a wrong clock is logged elsewhere
		}
		s.logger.Warn("node.unheard", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(aliveEvery / 5):
		}
	}
}

// reapDeadNodes releases the leases of dead nodes: their messages are due again. A locked user delays only their own messages.
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

// sessionTime is how long a node counts on its leases after a heartbeat. It then ends its
// attempts, a second before others may repeat them.
const sessionTime = leaseTime - time.Second

// nodeSession is this process under one number. It expires by the process's own clock, whether
// or not the database can be reached, and never comes back.
type nodeSession struct {
	node      int64
	ctx       context.Context // ends when the session expires
	expire    func()          // idempotent
	mu        sync.Mutex
	expiresAt time.Time
	timer     *time.Timer
}

// newNodeSession starts the session of a node whose heartbeat was sent at a time. onExpire is
// called when it expires.
func newNodeSession(node int64, sentAt time.Time, onExpire func()) *nodeSession {
	t := &nodeSession{node: node, expiresAt: sentAt.Add(sessionTime)}
	ctx, cancel := context.WithCancel(context.Background())
	t.ctx = ctx
	t.expire = sync.OnceFunc(func() {
		cancel()
		onExpire()
	})
	t.timer = time.AfterFunc(time.Until(t.expiresAt), t.expire)
	return t
}

// alive asks the clock: a timer may be late.
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

// renew extends the session by a heartbeat sent at a time, and reports whether it is alive.
func (t *nodeSession) renew(sentAt time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := sentAt.Add(sessionTime); t.aliveLocked() && until.After(t.expiresAt) {
		t.expiresAt = until
		t.timer.Reset(time.Until(until))
	}
	return t.aliveLocked()
}

// stop leaves the session without a warning when its time is over.
func (t *nodeSession) stop() { t.timer.Stop() }
