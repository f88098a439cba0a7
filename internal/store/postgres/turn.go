package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// changesAtOnce bounds how many changes one transaction makes, and so how long the
// turn of a user is kept from other nodes.
const changesAtOnce = 50

// change is something to be done in the turn of a user.
type change struct {
	ctx  context.Context
	now  time.Time
	do   func(*tx) error
	err  error
	done chan struct{}
}

// turns are the changes of this node that wait for the turn of one user. There is an
// entry for a user while somebody makes such changes.
type turns struct {
	mu      sync.Mutex
	waiting map[string][]*change
}

// join adds a change to those that wait. It reports whether it is the first, for which
// somebody has to be found who makes them.
func (t *turns) join(user string, c *change) (first bool) {
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
func (t *turns) take(user string) (changes []*change) {
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

// change makes one change of what belongs to some users, in their turn, and returns when
// it is committed and who waits for such changes has been told. Changes of one user that
// wait at the same time share a transaction. A change that logs nothing has no time.
func (s *Store) change(ctx context.Context, now time.Time, users []string, do func(*tx) error) error {
	if err := s.days.make(ctx, s.pool, now); err != nil {
		return fmt.Errorf("log of %s: %w", now.UTC().Format(time.DateOnly), err)
	}
	users = slices.Compact(slices.Sorted(slices.Values(users)))
	c := &change{ctx: ctx, now: now, do: do, done: make(chan struct{})}
	if len(users) != 1 {
		s.make(users, []*change{c})
	} else if s.turns.join(users[0], c) {
		s.loops.Go(func() { s.makeAll(users[0]) })
	}
	<-c.done
	return c.err
}

// call is change for a whole call of the seam.
func (s *Store) call(ctx context.Context, now time.Time, users []string, do func(*tx) error) (err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	return s.change(ctx, now, users, do)
}

// makeAll makes the changes of a user until none waits.
func (s *Store) makeAll(user string) {
	for changes := s.turns.take(user); len(changes) > 0; changes = s.turns.take(user) {
		s.make([]string{user}, changes)
	}
}

// make makes changes in one transaction and says what became of each.
func (s *Store) make(users []string, changes []*change) {
	err := s.transact(users, changes)
	if err == nil {
		s.changed()
	}
	for _, c := range changes {
		if c.err == nil {
			c.err = err
		}
		close(c.done)
	}
}

// transact makes changes in one transaction. One that fails leaves nothing behind and
// does not disturb the others; an error is that of all.
func (s *Store) transact(users []string, changes []*change) error {
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	pg, err := s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginTurn})
	if err != nil {
		return err
	}
	defer func() { _ = pg.Rollback(context.WithoutCancel(ctx)) }()
	if err := takeTurns(ctx, pg, users); err != nil {
		return err
	}
	t := &turn{ctx: ctx, pg: pg, store: s, sums: newSums()}
	for _, c := range changes {
		if c.err = c.ctx.Err(); c.err != nil {
			continue // nobody waits for it any more
		}
		if err := t.make(c); err != nil {
			return err
		}
	}
	if err := t.write(); err != nil {
		return err
	}
	return commit(ctx, pg)
}

// make makes a change, or takes back what it has written. It returns an error if it can
// do neither.
func (t *turn) make(c *change) error {
	tx := t.newTx(c.now)
	if c.err = c.do(tx); c.err == nil {
		c.err = tx.finish()
	}
	if c.err == nil {
		c.err = tx.failed
	}
	switch {
	case c.err == nil:
		t.add(tx.own)
		return nil
	case !tx.sent:
		return nil
	}
	_, err := t.pg.Exec(t.ctx, `ROLLBACK TO SAVEPOINT change`)
	return err
}

// beginTurn begins a transaction that the database ends when it hears nothing from this
// node for a while, so that a node whose network is cut does not keep a turn.
const beginTurn = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = '5s'`

// takeTurns locks the rows of users, in order, and makes those that are new.
func takeTurns(ctx context.Context, pg pgx.Tx, users []string) error {
	locked, err := lockUsers(ctx, pg, users)
	if err != nil || locked == len(users) {
		return err
	}
	_, err = pg.Exec(ctx, `
		INSERT INTO posthaste.users (user_id) SELECT unnest($1::text[])
		ON CONFLICT DO NOTHING`, users)
	if err != nil {
		return err
	}
	_, err = lockUsers(ctx, pg, users)
	return err
}

// lockUsers locks those rows there are, and returns how many.
func lockUsers(ctx context.Context, pg pgx.Tx, users []string) (int, error) {
	locked, err := rows(ctx, pg, pgx.RowTo[string], `
		SELECT user_id FROM posthaste.users WHERE user_id = ANY($1) ORDER BY user_id FOR UPDATE`, users)
	return len(locked), err
}

// errUnknown says that a commit was asked for and not answered.
var errUnknown = errors.New("postgres: it is not known whether the change took place")

// commit does not end with its context: what became of the transaction would not be
// known.
func commit(ctx context.Context, pg pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if err := pg.Commit(ctx); err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	return nil
}
