// Package peruser does what is due for many users side by side, so that one for whom
// nothing can be done now holds up nobody else.
package peruser

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// AtOnce is how many users are worked for at once.
const AtOnce = 16

// Rest is how long a user is left alone for whom work has failed.
const Rest = time.Second

// Crew works for users, for each of them in one goroutine at a time. Make one with New.
type Crew struct {
	freed   func()
	slots   chan struct{}
	running sync.WaitGroup

	mu   sync.Mutex
	busy map[string]bool // worked for, or resting
}

// New returns a crew. freed is called whenever a user is busy no more; it must not block.
func New(freed func()) *Crew {
	return &Crew{freed: freed, slots: make(chan struct{}, AtOnce), busy: map[string]bool{}}
}

// Busy returns the users who are worked for, or for whom work failed a moment ago.
func (c *Crew) Busy() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.busy))
}

// Do begins work for a user who is not busy, which reports whether it succeeded. It waits
// while AtOnce others are worked for; when ctx ends before that, nothing is done.
func (c *Crew) Do(ctx context.Context, user string, work func() bool) {
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
			rest(ctx)
		}
		c.mu.Lock()
		delete(c.busy, user)
		c.mu.Unlock()
		c.freed()
	})
}

// Wait waits for all work that was begun.
func (c *Crew) Wait() { c.running.Wait() }

func rest(ctx context.Context) {
	select {
	case <-time.After(Rest):
	case <-ctx.Done():
	}
}

// Sort returns what there is for each user, in the order in which the users come first.
func Sort[T any](all []T, userOf func(T) string) iter.Seq2[string, []T] {
	var users []string
	of := map[string][]T{}
	for _, one := range all {
		user := userOf(one)
		if of[user] == nil {
			users = append(users, user)
		}
		of[user] = append(of[user], one)
	}
	return func(yield func(string, []T) bool) {
		for _, user := range users {
			if !yield(user, of[user]) {
				return
			}
		}
	}
}
