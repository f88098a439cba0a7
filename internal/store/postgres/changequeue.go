package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"posthaste/internal/store/postgres/node"
)

// Bounds of one transaction, which limit how long other nodes wait for the user's row. The
// next transaction makes the changes that are left: slow ones would otherwise time out
// together, and again when they are retried.
const (
	changesAtOnce = 256
	workTime      = 2 * time.Second // no other change is started after it
)

// change is one change of a user's data. It is made again if its transaction failed because of
// another change.
type change struct {
	ctx      context.Context
	now      time.Time
	prefetch prefetch
	do       func(*tx) error
	err      error
	done     chan struct{}
}

// changeQueue holds, by user, the changes of this node that wait for the user's row. A user
// has an entry while a goroutine makes such changes.
type changeQueue struct {
	mu      sync.Mutex
	waiting map[string][]*change

	workTime time.Duration // in place of workTime, for tests; 0: none
}

// timeToStart is how long a transaction may go on to start changes: at most half of what its
// context leaves.
func (t *changeQueue) timeToStart(ctx context.Context) time.Duration {
	end, _ := ctx.Deadline()
	return min(cmp.Or(t.workTime, workTime), time.Until(end)/2)
}

// enqueue adds a change. It reports whether the caller must start a goroutine that makes the
// user's changes.
func (t *changeQueue) enqueue(user string, c *change) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	others, busy := t.waiting[user]
	t.waiting[user] = append(others, c)
	return !busy
}

// next returns the changes to be made next. If there are none, the caller must stop.
func (t *changeQueue) next(user string) (changes []*change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.waiting[user]
	if len(all) == 0 {
		delete(t.waiting, user)
		return nil
	}
	n := min(len(all), changesAtOnce)
	t.waiting[user] = all[n:]
	return all[:n:n]
}

// requeue puts changes back at the head.
func (t *changeQueue) requeue(user string, changes []*change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[user] = slices.Concat(changes, t.waiting[user])
}

// withdraw removes a change and reports whether it was still waiting.
func (t *changeQueue) withdraw(user string, c *change) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.waiting[user]
	i := slices.Index(line, c)
	if i < 0 {
		return false
	}
	t.waiting[user] = slices.Delete(line, i, i+1)
	return true
}

// change makes one change of some users' data and returns when it is committed and waiters are
// notified. Changes of one user that wait at the same time share a transaction and one
// prefetch. now is zero for a change that logs nothing.
func (s *Store) change(ctx context.Context, now time.Time, users []string, w prefetch, do func(*tx) error) error {
	if err := s.days.ensure(ctx, s.pool, now); err != nil {
		return fmt.Errorf("log of %s: %w", now.UTC().Format(time.DateOnly), err)
	}
	users = slices.Compact(slices.Sorted(slices.Values(users)))
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	c := &change{ctx: ctx, now: now, prefetch: w, do: do, done: make(chan struct{})}
	if len(users) != 1 {
		s.apply(users, []*change{c})
		close(c.done)
	} else if s.changes.enqueue(users[0], c) {
		s.loops.Go(func() { s.applyQueued(users[0]) })
	}
	return s.await(ctx, users, c)
}

// await returns the result of a change. A change that has not started when its context ends,
// after callTime at most, is withdrawn.
func (s *Store) await(ctx context.Context, users []string, c *change) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if len(users) == 1 && s.changes.withdraw(users[0], c) {
		return ctx.Err()
	}
	<-c.done
	return c.err
}

// call is change for a whole call of the seam.
func (s *Store) call(ctx context.Context, now time.Time, users []string, w prefetch, do func(*tx) error) (err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	return s.change(ctx, now, users, w, do)
}

// applyQueued makes the changes of a user until none waits.
func (s *Store) applyQueued(user string) {
	for changes := s.changes.next(user); len(changes) > 0; changes = s.changes.next(user) {
		left := s.apply([]string{user}, changes)
		s.changes.requeue(user, left)
		for _, c := range without(changes, left) {
			close(c.done)
		}
	}
}

// apply makes changes in one transaction and sets their results. If that fails because of one
// of them, the others are made without it, or each alone if it is unknown which it was. It
// returns those it had no time for, never the first.
func (s *Store) apply(users []string, changes []*change) (left []*change) {
	left, failed, err := s.transact(users, changes)
	switch {
	case failed != nil:
		if others := without(changes, []*change{failed}); len(others) > 0 {
			return s.apply(users, others)
		}
	case err == nil:
		return left
	case len(changes) > 1 && statementRejected(err):
		for _, c := range changes {
			s.apply(users, []*change{c})
		}
	default:
		for _, c := range changes {
			c.err = err
		}
	}
	return nil
}

// rejected reports whether the database rejected a statement, and with it the transaction, but
// keeps the connection.
func rejected(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Severity == "ERROR"
}

// statementRejected reports whether the statement itself was the reason.
func statementRejected(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && rejected(err) && !node.IsTransient(said.Code)
}

// transact makes changes in one transaction, and returns those it had no time for. A change
// that failed after it had written is returned as failed, and nothing is committed; one that
// failed before does not affect the others. err is the error of all.
func (s *Store) transact(users []string, changes []*change) (left []*change, failed *change, err error) {
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Release() // ends the connection if the transaction goes on
	t := newUserTx(ctx, s, conn.Conn())
	if err := t.begin(users, changes); err != nil {
		return nil, nil, err
	}
	until := time.Now().Add(s.changes.timeToStart(ctx))
	for i, c := range changes {
		if i > 0 && !time.Now().Before(until) {
			return changes[i:], nil, t.commit(users)
		}
		if c.err = c.ctx.Err(); c.err != nil {
			continue // nobody waits for it any more
		}
		written := t.writes
		c.err = c.do(t.at(c.now))
		if t.failed != nil {
			return nil, nil, t.failed
		}
		if c.err != nil && t.writes > written {
			return nil, c, t.rollback()
		}
	}
	return nil, nil, t.commit(users)
}
