// Package peruser does what is due for many users side by side, so that one for whom
// nothing can be done now holds up nobody else.
package peruser

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// atOnce is how many users are worked for at once.
const atOnce = 16

// rest is how long a user is left alone for whom work has failed, and how long it is until
// the next look after one that failed.
const rest = time.Second

// Work is what comes due for users from time to time.
type Work[T any] struct {
	// Due returns what is due, but for the users who are busy, and when to look for more.
	// What it returns beside an error is done, too.
	Due    func(ctx context.Context, busy []string) (due []T, next time.Time, err error)
	UserOf func(T) string
	// Do does what is due for one user, in one goroutine at a time for each.
	Do func(ctx context.Context, due []T) error
	// Failed is told why Do failed, or Due, which is about no user.
	Failed func(user string, err error)
	// Look says that something may have come due. Its buffer has one place.
	Look chan struct{}
	// Heartbeat is how often it is looked at least, in case another process changed something.
	Heartbeat time.Duration
	Now       func() time.Time
}

// LookAgain lets Run look as soon as it can. It does not block.
func LookAgain(look chan<- struct{}) {
	select {
	case look <- struct{}{}:
	default:
	}
}

// Run does what is due until ctx ends, and returns when all that was begun has ended.
func (w Work[T]) Run(ctx context.Context) {
	c := newCrew(func() { LookAgain(w.Look) })
	defer c.running.Wait()
	for {
		next := w.once(ctx, c)
		wait := w.Heartbeat
		if !next.IsZero() {
			// Never 0: a timer that has run out before it is waited for crashes the race
			// detector in tests with a fake clock (golang/go#78156).
			wait = min(max(time.Nanosecond, next.Sub(w.Now())), wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.Look:
		case <-time.After(wait):
		}
	}
}

// once begins what is due, and returns when to look for more.
func (w Work[T]) once(ctx context.Context, c *crew) (next time.Time) {
	failed := func(user string, err error) {
		if err != nil && ctx.Err() == nil {
			w.Failed(user, err)
		}
	}
	due, next, err := w.Due(ctx, c.allBusy())
	if err != nil {
		failed("", err)
		if again := w.Now().Add(rest); next.IsZero() || again.Before(next) {
			next = again
		}
	}
	for len(due) > 0 {
		user := w.UserOf(due[0])
		var theirs, others []T
		for _, one := range due {
			if w.UserOf(one) == user {
				theirs = append(theirs, one)
			} else {
				others = append(others, one)
			}
		}
		due = others
		c.do(ctx, user, func() bool {
			err := w.Do(ctx, theirs)
			failed(user, err)
			return err == nil
		})
	}
	return next
}

// A crew works for users, for each of them in one goroutine at a time.
type crew struct {
	freed   func() // called whenever a user is busy no more
	slots   chan struct{}
	running sync.WaitGroup

	mu   sync.Mutex
	busy map[string]bool // worked for, or resting
}

func newCrew(freed func()) *crew {
	return &crew{freed: freed, slots: make(chan struct{}, atOnce), busy: map[string]bool{}}
}

// allBusy returns the users who are worked for, or for whom work failed a moment ago.
func (c *crew) allBusy() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.busy))
}

// do begins work for a user who is not busy, which reports whether it succeeded. It waits
// while atOnce others are worked for; when ctx ends before that, nothing is done.
func (c *crew) do(ctx context.Context, user string, work func() bool) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	c.mu.Lock()
	c.busy[user] = true
	c.mu.Unlock()
	c.running.Go(func() {
		done := work()
		<-c.slots
		if !done {
			select {
			case <-time.After(rest):
			case <-ctx.Done():
			}
		}
		c.mu.Lock()
		delete(c.busy, user)
		c.mu.Unlock()
		c.freed()
	})
}
