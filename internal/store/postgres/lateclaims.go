package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres/node"
)

// claimPatience is how long Claim waits for locked users. Their claims then come with a later
// call.
const claimPatience = time.Second

// lateClaims are claims from users, or from databases, that were made after Claim had returned. Each of them has
// one call at a time.
type lateClaims[From comparable] struct {
	mu    sync.Mutex
	calls map[From]int // that go on, with how many claims each may make
	made  []store.Claim
	err   error
}

// start reports whether a call may start: none from there goes on.
func (l *lateClaims[From]) start(from From, limit int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, calls := l.calls[from]; calls {
		return false
	}
	if l.calls == nil {
		l.calls = map[From]int{}
	}
	l.calls[from] = limit
	return true
}

func (l *lateClaims[From]) end(from From) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, from)
}

// add keeps a late result, and ends its call. That a row stayed locked, or that a database is away, is no error to report.
func (l *lateClaims[From]) add(c claimResult[From]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c.from)
	l.made = append(l.made, c.claims...)
	if c.err != nil && !node.IsUnavailable(c.err) && !errors.Is(c.err, store.ErrUnavailable) {
		l.err = errors.Join(l.err, c.err)
	}
}

// take returns up to limit claims, and the errors.
func (l *lateClaims[From]) take(limit int) ([]store.Claim, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(limit, len(l.made))
	claims, err := l.made[:n:n], l.err
	l.made, l.err = slices.Clone(l.made[n:]), nil // keeps no message that was taken
	return claims, err
}

// any reports whether there are claims that were not taken, or will be.
func (l *lateClaims[From]) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)+len(l.made) > 0
}

// busy returns where calls go on, and the maximum number of claims to be taken when they have ended.
func (l *lateClaims[From]) busy() (from []From, slots int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, slots = []From{}, len(l.made) // never NULL
	for of, n := range l.calls {
		from, slots = append(from, of), slots+n
	}
	return from, slots
}

// claimResult is what a call has claimed.
type claimResult[From comparable] struct {
	from   From
	claims []store.Claim
	next   time.Time
	err    error
}

// finish hands a result over, or keeps it if nobody waits any more, and then signals that.
func (l *lateClaims[From]) finish(c claimResult[From], came chan<- claimResult[From], gone <-chan struct{}, signal func()) {
	select {
	case came <- c:
	case <-gone:
		l.add(c)
		signal()
	}
}

// claimPerUser claims from each user in a goroutine, and returns the results that arrive in
// time. A user whose row stays locked or whose messages are unreadable delays nobody else.
func (s *Store) claimPerUser(ctx context.Context, now time.Time, users []string, limit int, patience time.Duration) (claims []store.Claim, next time.Time, err error) {
	users = users[:min(len(users), limit)]
	came, gone := make(chan claimResult[string]), make(chan struct{})
	defer close(gone)
	standing := 0
	for _, user := range users {
		if s.late.start(user, limit/len(users)) {
			standing++
			s.loops.Go(func() { s.claimForOne(now, user, limit/len(users), came, gone) })
		}
	}
	enough := time.NewTimer(max(patience, time.Nanosecond)) // see wake.In
	defer enough.Stop()
	for range standing {
		select {
		case c := <-came:
			s.late.end(c.from)
			claims, next, err = append(claims, c.claims...), c.next, errors.Join(err, c.err)
		case <-enough.C:
			return claims, now, err
		case <-ctx.Done():
			return claims, now, errors.Join(err, ctx.Err())
		}
	}
	return claims, next, err
}

// claimForOne claims from a user.
func (s *Store) claimForOne(now time.Time, user string, limit int, came chan<- claimResult[string], gone <-chan struct{}) {
	c := claimResult[string]{from: user}
	c.claims, c.next, c.err = s.claimForUser(s.closing, now, user, limit)
	if c.err != nil {
		c.err = fmt.Errorf("user %q: %w", user, c.err)
	}
	s.late.finish(c, came, gone, s.signal)
}
