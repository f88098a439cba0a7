package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"posthaste/internal/store"
	"posthaste/internal/store/postgres/node"
)

// claimPatience is how long Claim waits for locked users. Their claims then come with a later
// call.
const claimPatience = time.Second

// lateResults are claims for single users that were made after Claim had returned. Each user
// has one such claim at a time.
type lateResults struct {
	mu       sync.Mutex
	claiming map[string]bool // users with a running claim
	claims   []store.Claim
	err      error
}

// start reports whether a claim for the user may start: none is running.
func (l *lateResults) start(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claiming[user] {
		return false
	}
	l.claiming[user] = true
	return true
}

func (l *lateResults) end(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claiming, user)
}

// add keeps a late result, and ends its claim. That a row stayed locked is no error to report.
func (l *lateResults) add(c claimResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claiming, c.user)
	l.claims = append(l.claims, c.claims...)
	if c.err != nil && !node.IsUnavailable(c.err) {
		l.err = c.err
	}
}

// take returns up to limit claims, and the errors.
func (l *lateResults) take(limit int) ([]store.Claim, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(limit, len(l.claims))
	claims, err := l.claims[:n:n], l.err
	l.claims, l.err = slices.Clone(l.claims[n:]), nil // keeps no message that was taken
	return claims, err
}

// any reports whether there are results that were not taken, or will be.
func (l *lateResults) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.claiming)+len(l.claims) > 0
}

// users returns those with a running claim.
func (l *lateResults) users() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.AppendSeq([]string{}, maps.Keys(l.claiming)) // never NULL
}

type claimResult struct {
	user   string
	claims []store.Claim
	next   time.Time
	err    error
}

// claimPerUser claims from each user in a goroutine, and returns the results that arrive in
// time. A user whose row stays locked or whose messages are unreadable delays nobody else.
func (s *Store) claimPerUser(ctx context.Context, now time.Time, users []string, limit int, patience time.Duration) (claims []store.Claim, next time.Time, err error) {
	users = users[:min(len(users), limit)]
	came, gone := make(chan claimResult), make(chan struct{})
	defer close(gone)
	standing := 0
	for _, user := range users {
		if s.lateResults.start(user) {
			standing++
			s.loops.Go(func() { s.claimForOne(now, user, limit/len(users), came, gone) })
		}
	}
	enough := time.NewTimer(max(patience, time.Nanosecond)) // see wake.In
	defer enough.Stop()
	for range standing {
		select {
		case c := <-came:
			s.lateResults.end(c.user)
			claims, next, err = append(claims, c.claims...), c.next, errors.Join(err, c.err)
		case <-enough.C:
			return claims, now, err
		case <-ctx.Done():
			return claims, now, errors.Join(err, ctx.Err())
		}
	}
	return claims, next, err
}

// claimForOne claims from a user and sends the result, or keeps it if nobody waits any more.
func (s *Store) claimForOne(now time.Time, user string, limit int, came chan<- claimResult, gone <-chan struct{}) {
	c := claimResult{user: user}
	c.claims, c.next, c.err = s.claimForUser(s.closing, now, user, limit)
	if c.err != nil {
		c.err = fmt.Errorf("user %q: %w", user, c.err)
	}
	select {
	case came <- c:
	case <-gone:
		s.lateResults.add(c)
		s.signal()
	}
}
