package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"posthaste/internal/store/postgres/node"
)

// userLockTimeout is how long to wait for one of many users' rows: longer than ordinary
// transactions take.
const userLockTimeout = 200 * time.Millisecond

// forEachUser makes a change for each user, and returns those for whom it failed, and why.
// Users whose rows are not locked come first, many in one transaction; then each other one
// alone, with a short lock timeout, so that a row that stays locked delays nobody else.
func (s *Store) forEachUser(ctx context.Context, now time.Time, users []string, do func(tx *tx, user string) error) (left []string, failed error) {
	each := func(tx *tx, locked []string) error {
		for _, user := range locked {
			if err := do(tx, user); err != nil {
				return err
			}
		}
		return nil
	}
	left = slices.Clone(users)
	for some := range slices.Chunk(users, changesAtOnce) {
		made, err := s.changeLocked(ctx, now, 0, some, each)
		if node.IsUnavailable(err) {
			return left, err
		}
		left = without(left, made) // none if it failed
	}
	left = slices.DeleteFunc(left, func(user string) bool {
		_, err := s.changeLocked(ctx, now, userLockTimeout, []string{user}, each)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("user %q: %w", user, err))
		}
		return err == nil
	})
	return left, failed
}

// changeLocked makes a change in one transaction and returns the users that it locked: all within
// a lock timeout, or with a timeout of 0 those whose rows are not locked. do gets those.
func (s *Store) changeLocked(ctx context.Context, now time.Time, timeout time.Duration, users []string, do func(tx *tx, locked []string) error) (locked []string, err error) {
	if err := s.days.ensure(ctx, s.pool, now); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // ends the connection if the transaction goes on
	t := newUserTx(ctx, s, conn.Conn())
	query := lockUserRows
	if t.lockTimeout = timeout; timeout == 0 {
		query = lockFreeUserRows
	}
	locked, err = t.lock(query, users, []*change{{now: now}})
	if err == nil && len(locked) == 0 {
		return nil, t.rollback()
	}
	if err == nil {
		err = do(t.at(now), locked)
	}
	if err == nil {
		err = t.commit(locked)
	}
	if err != nil {
		return nil, err
	}
	return locked, nil
}

// restOfTask is how long a background task that failed rests.
const restOfTask = 3 * time.Second

// backgroundTask is work that a claim starts before it looks for messages, and that may have
// to wait for locked users. It runs once at a time.
type backgroundTask struct{ running atomic.Bool }

// run starts the work unless it is running, and reports whether it did. It waits until the
// work is done, for claimPatience at most. A failure is logged, unless the database cannot be
// reached, and the task may run again after restOfTask.
func (a *backgroundTask) run(ctx context.Context, s *Store, work func(context.Context) error) (begun bool) {
	if !a.running.CompareAndSwap(false, true) {
		return false
	}
	done := make(chan struct{})
	s.loops.Go(func() {
		err := work(s.closing)
		if err == nil {
			a.running.Store(false)
			close(done)
			return
		}
		close(done)
		if !node.IsUnavailable(err) {
			s.logger.Warn("leases.kept", "error", err)
		}
		select {
		case <-s.closing.Done():
		case <-time.After(restOfTask):
		}
		a.running.Store(false)
		s.signal()
	})
	enough := time.NewTimer(s.patience)
	defer enough.Stop()
	select {
	case <-done:
	case <-enough.C:
	case <-ctx.Done():
	}
	return true
}
