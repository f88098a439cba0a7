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

// Quick changes of several users share a transaction, so that the cost of a commit hardly grows with the
// number of users. A change that may take long gets its own transaction.
const (
	groupsAtOnce = 2                     // but for those that have lasted for slowGroup
	slowGroup    = 20 * time.Millisecond // longer than most; then a row is locked elsewhere, or the database is far away
	quickReads   = 16                    // maximum number of reads that a quick change's hint names
)

// change is one change of a user's data. It is made again if its transaction failed because of
// another change.
type change struct {
	users    []string // several have a transaction of their own
	ctx      context.Context
	now      time.Time
	prefetch prefetch
	do       func(*tx) error
	err      error
	done     chan struct{}
}

// user is the one user of the change.
func (c *change) user() string { return c.users[0] }

// quick reports whether the change may share a transaction with those of other users.
func (c *change) quick() bool {
	reads := len(c.prefetch.live) + len(c.prefetch.messages) + len(c.prefetch.records) + len(c.prefetch.lanes)
	return 0 < reads && reads <= quickReads
}

// changeQueue holds, by user, the changes of this node that wait for the user's row. A user
// has an entry while it is ready or a goroutine makes such changes.
type changeQueue struct {
	mu      sync.Mutex
	waiting map[string][]*change
	ready   []string // users for whom no goroutine makes changes
	groups  int      // goroutines that make those of ready users

	workTime time.Duration // in place of workTime, for tests; 0: none
}

// timeToStart is how long a transaction may go on to start changes: at most half of what its
// context leaves.
func (t *changeQueue) timeToStart(ctx context.Context) time.Duration {
	end, _ := ctx.Deadline()
	return min(cmp.Or(t.workTime, workTime), time.Until(end)/2)
}

// makes is what a caller must start for a user who has changes.
type makes int

const (
	makesNothing makes = iota // others make them
	makesUser                 // a goroutine that makes this user's
	makesReady                // one that makes those of ready users
)

// enqueue adds a change.
func (t *changeQueue) enqueue(c *change) makes {
	t.mu.Lock()
	defer t.mu.Unlock()
	others, busy := t.waiting[c.user()]
	t.waiting[c.user()] = append(others, c)
	if busy {
		return makesNothing
	}
	return t.offer(c.user())
}

// offer has the changes of a user made that wait.
func (t *changeQueue) offer(user string) makes {
	if !t.waiting[user][0].quick() {
		return makesUser
	}
	t.ready = append(t.ready, user)
	if t.groups >= groupsAtOnce {
		return makesNothing
	}
	t.groups++
	return makesReady
}

// nextGroup returns quick changes of ready users, and users whose first change is none any more. If there
// are neither, the caller must stop.
func (t *changeQueue) nextGroup() (changes []*change, apart []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	each := changesAtOnce / max(1, len(t.ready))
	for len(t.ready) > 0 && len(changes) < changesAtOnce {
		user := t.ready[0]
		t.ready = t.ready[1:]
		line := t.waiting[user]
		n := 0
		for n < min(len(line), max(1, each)) && line[n].quick() {
			n++
		}
		switch {
		case n > 0:
			changes = append(changes, line[:n]...)
			t.waiting[user] = line[n:]
		case len(line) > 0:
			apart = append(apart, user)
		default: // they were withdrawn
			delete(t.waiting, user)
		}
	}
	if len(changes)+len(apart) == 0 {
		t.groups--
	}
	return changes, apart
}

// leave ends a group before it has stopped, so that another one may begin.
func (t *changeQueue) leave() (group bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ready) == 0 {
		t.groups--
	}
	return len(t.ready) > 0
}

// done ends the work for a user in a group.
func (t *changeQueue) done(user string) makes {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[user]) == 0 {
		delete(t.waiting, user)
		return makesNothing
	}
	return t.offer(user)
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
	c := &change{users: users, ctx: ctx, now: now, prefetch: w, do: do, done: make(chan struct{})}
	if len(users) != 1 {
		s.apply(users, []*change{c})
		close(c.done)
		return c.err
	}
	s.start(s.changes.enqueue(c), c.user())
	return s.await(ctx, users, c)
}

// start starts what makes changes of a user.
func (s *Store) start(what makes, user string) {
	switch what {
	case makesUser:
		s.loops.Go(func() { s.applyQueued(user) })
	case makesReady:
		s.loops.Go(s.applyGroups)
	}
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

// applyGroups makes changes of ready users until none waits. When one lasts, another goroutine goes on.
func (s *Store) applyGroups() {
	for changes, apart := s.changes.nextGroup(); len(changes)+len(apart) > 0; changes, apart = s.changes.nextGroup() {
		for _, user := range apart {
			s.start(makesUser, user)
		}
		if len(changes) == 0 {
			continue
		}
		left := make(chan bool, 1)
		slow := time.AfterFunc(slowGroup, func() {
			if s.changes.leave() {
				s.loops.Go(s.applyGroups)
			}
			left <- true
		})
		s.applyGroup(changes)
		if !slow.Stop() {
			<-left
			return
		}
	}
}

// applyGroup makes changes of some users in one transaction. Those of users whose rows are locked, or that
// cannot share one, are made apart.
func (s *Store) applyGroup(changes []*change) {
	users := slices.Compact(slices.Sorted(slices.Values(column(changes, func(c *change) string { return c.user() }))))
	var apart []*change
	if len(users) == 1 {
		apart = s.apply(users, changes)
	} else {
		apart = s.applyUnlocked(users, changes)
	}
	for _, c := range without(changes, apart) {
		close(c.done)
	}
	for _, user := range users {
		own := slices.DeleteFunc(slices.Clone(apart), func(c *change) bool { return c.user() != user })
		if len(own) == 0 {
			s.start(s.changes.done(user), user)
			continue
		}
		s.changes.requeue(user, own)
		s.start(makesUser, user)
	}
}

// applyUnlocked makes changes of users whose rows are not locked, and returns the others. If the transaction
// fails for any reason but an outage, it returns all: it is unknown whose change was the reason.
func (s *Store) applyUnlocked(users []string, changes []*change) (left []*change) {
	left, failed, err := s.transact(lockFreeUserRows, users, changes)
	switch {
	case failed != nil:
		return s.applyUnlocked(users, without(changes, []*change{failed}))
	case err == nil:
		return left
	case !errors.Is(err, node.ErrInDoubt) && (rejected(err) || !node.IsUnavailable(err)):
		return changes
	}
	for _, c := range without(changes, left) {
		c.err = err
	}
	return left
}

// apply makes changes in one transaction and sets their results. If that fails because of one
// of them, the others are made without it, or each alone if it is unknown which it was. It
// returns those it had no time for, never the first.
func (s *Store) apply(users []string, changes []*change) (left []*change) {
	left, failed, err := s.transact(lockUserRows, users, changes)
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

// transact makes changes in one transaction, and returns those it had no time for, or whose user it has not
// locked. A change that failed after it had written is returned as failed, and nothing is committed; one that
// failed before does not affect the others. err is the error of all.
func (s *Store) transact(lock string, users []string, changes []*change) (left []*change, failed *change, err error) {
	if len(changes) == 0 {
		return nil, nil, nil
	}
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Release() // ends the connection if the transaction goes on
	t := newUserTx(ctx, s, conn.Conn())
	if lock == lockUserRows {
		err = t.begin(users, changes)
	} else if users, err = t.lock(lock, users, changes); err == nil && len(users) == 0 {
		return changes, nil, t.rollback()
	}
	if err != nil {
		return nil, nil, err
	}
	until := time.Now().Add(s.changes.timeToStart(ctx))
	for i, c := range changes {
		if slices.ContainsFunc(c.users, t.notLocked) || i > 0 && !time.Now().Before(until) {
			left = append(left, c)
			continue
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
	return left, nil, t.commit(users)
}
