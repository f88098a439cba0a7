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
)

// Bounds of one transaction, and so of how long the turn of a user is kept from other
// nodes. What it does not come to is made by the next one: many changes that take long
// would otherwise run out of time together, and again when they are tried together.
const (
	changesAtOnce = 256
	workTime      = 2 * time.Second // no other change is begun after it
)

// change is something to be done in the turn of a user. It is done again if the
// transaction it was part of failed because of another.
type change struct {
	ctx      context.Context
	now      time.Time
	prefetch prefetch
	do       func(*tx) error
	err      error
	done     chan struct{}
}

// turns are the changes of this node that wait for the turn of one user. There is an
// entry for a user while somebody makes such changes.
type changeQueue struct {
	mu      sync.Mutex
	waiting map[string][]*change

	workTime time.Duration // in place of workTime, for tests; 0: none
}

// time returns how long one goes on to begin changes: after it, there is as much left to
// end them, of the context too.
func (t *changeQueue) timeToStart(ctx context.Context) time.Duration {
	end, _ := ctx.Deadline()
	return min(cmp.Or(t.workTime, workTime), time.Until(end)/2)
}

// join adds a change to those that wait. It reports whether it is the first, for which
// somebody has to be found who makes them.
func (t *changeQueue) enqueue(user string, c *change) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[string][]*change{}
	}
	others, busy := t.waiting[user]
	t.waiting[user] = append(others, c)
	return !busy
}

// take returns the changes to be made next: none when there are none any more, and
// whoever makes them shall stop.
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

// back puts changes at the head of the line.
func (t *changeQueue) requeue(user string, changes []*change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[user] = slices.Concat(changes, t.waiting[user])
}

// leave takes a change out of the line, and reports whether it still stood there.
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

// change makes one change of what belongs to some users, in their turn, and returns when
// it is committed and who waits for such changes has been told. Changes of one user that
// wait at the same time share a transaction; what they want is read for all of them at
// once. A change that logs nothing has no time.
func (s *Store) change(ctx context.Context, now time.Time, users []string, w prefetch, do func(*tx) error) error {
	if err := s.partitions.ensure(ctx, s.pool, now); err != nil {
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

// await returns what became of a change. Nobody waits in line for longer than its context
// lasts, which is callTime at most: what has not begun by then does not take place.
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
func (s *Store) call(ctx context.Context, now time.Time, users []string, do func(*tx) error) error {
	return s.callWith(ctx, now, users, prefetch{}, do)
}

// callWanting is call for a change that says what it wants to have read.
func (s *Store) callWith(ctx context.Context, now time.Time, users []string, w prefetch, do func(*tx) error) (err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	return s.change(ctx, now, users, w, do)
}

// makeAll makes the changes of a user until none waits.
func (s *Store) applyQueued(user string) {
	for changes := s.changes.next(user); len(changes) > 0; changes = s.changes.next(user) {
		left := s.apply([]string{user}, changes)
		s.changes.requeue(user, left)
		for _, c := range without(changes, left) {
			close(c.done)
		}
	}
}

// make makes changes and says what became of each. They are made in one transaction,
// unless that fails because of one of them: the others are made without it then, or
// each alone, if it is not known which it was. It returns those that there was no time
// for, never the first.
func (s *Store) apply(users []string, changes []*change) (left []*change) {
	left, failed, err := s.transact(users, changes)
	switch {
	case failed != nil:
		if others := without(changes, []*change{failed}); len(others) > 0 {
			return s.apply(users, others)
		}
	case err == nil:
		s.changed(users...)
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

// answered reports whether the database has refused a statement, and with it the
// transaction, and goes on.
func rejected(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && said.Severity == "ERROR"
}

// refused reports whether that was because of what the statement says.
func statementRejected(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && rejected(err) && !isTransient(said.Code)
}

// transact makes changes in one transaction, and returns those that it has not come to.
// If one fails that has written already it is returned, and nothing took place; one that
// fails before has not disturbed the others. An error is that of all.
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
			return changes[i:], nil, t.commit()
		}
		if c.err = c.ctx.Err(); c.err != nil {
			continue // nobody waits for it any more
		}
		written := t.writes
		c.err = c.do(&tx{userTx: t, now: c.now})
		if t.failed != nil {
			return nil, nil, t.failed
		}
		if c.err != nil && t.writes > written {
			return nil, c, t.rollback()
		}
	}
	return nil, nil, t.commit()
}
