package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"posthaste/internal/store"
)

// DueWork is work that comes due for users from time to time. Up to usersAtOnce users are
// served at once, each in one goroutine, so that one whose work hangs or fails delays no
// other.
type DueWork[T any] struct {
	// Due returns what is due, except for the users who are busy, and when to look for more.
	// What it returns together with an error is done too.
	Due    func(ctx context.Context, busy []string) (due []T, next time.Time, err error)
	UserOf func(T) string
	// Do does what is due for one user.
	Do func(ctx context.Context, due []T) error
	// Failed is called with why Do failed, or why Due did, which is about no user.
	Failed func(user string, err error)
	// Look says that something may have come due. Its buffer has one place.
	Look chan struct{}
	// Heartbeat is the maximum time between two looks, in case another process changed
	// something.
	Heartbeat time.Duration
	Now       func() time.Time
}

const (
	usersAtOnce = 16
	// pauseAfterFailure is how long a user whose work failed counts as busy, and how long it
	// is until the next look after one that failed.
	pauseAfterFailure = time.Second
)

// LookAgain makes Run look as soon as it can. It does not block.
func LookAgain(look chan<- struct{}) {
	select {
	case look <- struct{}{}:
	default:
	}
}

// Run does what is due until ctx ends, and returns when all that was begun has ended.
func (w DueWork[T]) Run(ctx context.Context) {
	r := &dueRun[T]{DueWork: w, slots: make(chan struct{}, usersAtOnce), busy: map[string]bool{}}
	defer r.running.Wait()
	for {
		wait := w.Heartbeat
		if next := r.once(ctx); !next.IsZero() {
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

// dueRun is a Run in progress.
type dueRun[T any] struct {
	DueWork[T]
	slots   chan struct{}
	running sync.WaitGroup

	mu   sync.Mutex
	busy map[string]bool // users who are served, or whose work failed a moment ago
}

// once begins what is due, and returns when to look for more. It waits for a slot; when ctx
// ends before there is one, it begins no more.
func (r *dueRun[T]) once(ctx context.Context) (next time.Time) {
	r.mu.Lock()
	busy := slices.Collect(maps.Keys(r.busy))
	r.mu.Unlock()
	due, next, err := r.Due(ctx, busy)
	if err != nil {
		r.failed(ctx, "", err)
		next = store.Earlier(next, r.Now().Add(pauseAfterFailure))
	}
	var users []string // in the order of what is due
	theirs := map[string][]T{}
	for _, one := range due {
		user := r.UserOf(one)
		if theirs[user] == nil {
			users = append(users, user)
		}
		theirs[user] = append(theirs[user], one)
	}
	for _, user := range users {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return next
		}
		r.mu.Lock()
		r.busy[user] = true
		r.mu.Unlock()
		r.running.Go(func() { r.serve(ctx, user, theirs[user]) })
	}
	return next
}

func (r *dueRun[T]) serve(ctx context.Context, user string, due []T) {
	err := r.Do(ctx, due)
	<-r.slots
	if err != nil {
		r.failed(ctx, user, err)
		select {
		case <-time.After(pauseAfterFailure):
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	delete(r.busy, user)
	r.mu.Unlock()
	LookAgain(r.Look)
}

func (r *dueRun[T]) failed(ctx context.Context, user string, err error) {
	if ctx.Err() == nil {
		r.Failed(user, err)
	}
}
