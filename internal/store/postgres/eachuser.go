package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// turnTime is how long each of many turns is waited for: longer than turns take that others
// have one after another, and not for one that somebody keeps.
const userLockTimeout = 200 * time.Millisecond

// eachTurn makes a change in the turn of each of some users, and returns those for whom it
// was not made, and why. Those whose turns nobody has come first, many in one transaction;
// each of the others is waited for, but not for long, so that a turn which is kept holds
// up nobody else.
func (s *Store) forEachUser(ctx context.Context, now time.Time, users []string, do func(tx *tx, user string) error) (left []string, failed error) {
	left = slices.Clone(users)
	for some := range slices.Chunk(users, changesAtOnce) {
		made, err := s.changeUsers(ctx, now, 0, some, do)
		if isUnavailable(err) {
			return left, err
		}
		left = without(left, made) // none if it failed, for it is not known because of whom
	}
	left = slices.DeleteFunc(left, func(user string) bool {
		_, err := s.changeUsers(ctx, now, userLockTimeout, []string{user}, do)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("user %q: %w", user, err))
		}
		return err == nil
	})
	return left, failed
}

// takeTurns makes a change in the turn of each of some users, in one transaction, and
// returns those for whom it was made: all, if each turn was to be had within a time, or
// for a time of 0 those whose turns nobody had.
func (s *Store) changeUsers(ctx context.Context, now time.Time, within time.Duration, users []string, do func(tx *tx, user string) error) (made []string, err error) {
	if err := s.partitions.ensure(ctx, s.pool, now); err != nil {
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
	if t.lockTimeout = within; within == 0 {
		made, err = t.lock(lockFreeUserRows, users, []*change{{now: now}})
	} else {
		made, err = t.lock(lockUserRows, users, []*change{{now: now}})
	}
	for i := 0; i < len(made) && err == nil; i++ {
		err = do(&tx{userTx: t, now: now}, made[i])
	}
	if err != nil {
		return nil, err
	}
	if err := t.commit(); err != nil {
		return nil, err
	}
	s.changed(made...)
	return made, nil
}

// aside is work in the turns of users that a claim finds to be done before all is due that
// should be, and that may have to wait for turns which somebody else keeps. It is done once
// at a time.
type backgroundTask struct{ running atomic.Bool }

// do does the work unless it is being done, and reports whether it has begun it: it returns
// when that is done, or the patience of the store is at its end. What fails is logged, and
// may be done again after a while.
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
		s.logger.Warn("leases.kept", "error", err)
		select {
		case <-s.closing.Done():
		case <-time.After(aliveEvery):
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
