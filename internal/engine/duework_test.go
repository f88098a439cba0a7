package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"posthaste/internal/engine"
)

// usersAtOnce is how many users are served at once.
const usersAtOnce = 16

// newWork returns work of which all is due at the first look, and nothing later.
func newWork(due []string, do func(context.Context, []string) error) engine.DueWork[string] {
	return engine.DueWork[string]{
		Due: func(context.Context, []string) ([]string, time.Time, error) {
			found := due
			due = nil
			return found, time.Time{}, nil
		},
		UserOf:    func(user string) string { return user },
		Do:        do,
		Failed:    func(string, error) {},
		Look:      make(chan struct{}, 1),
		Heartbeat: time.Hour,
		Now:       time.Now,
	}
}

func users(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// One user's work hangs, and so does that of others up to the limit: who comes then waits
// for the first of them.
func TestUsersAreServedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		var most, now, done atomic.Int64
		newWork(users(2*usersAtOnce), func(context.Context, []string) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Minute)
			now.Add(-1)
			done.Add(1)
			return nil
		}).Run(ctx)
		if most.Load() != usersAtOnce || done.Load() != 2*usersAtOnce {
			t.Errorf("%d were done within 2m, %d at once; want %d, %d at once", done.Load(), most.Load(), 2*usersAtOnce, usersAtOnce)
		}
	})
}

// A user is busy while served, and for a while after work that failed; each end of it makes
// for another look.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		work := newWork([]string{"ann", "bob"}, func(_ context.Context, users []string) error {
			time.Sleep(time.Minute)
			if users[0] == "bob" {
				return errors.New("no")
			}
			return nil
		})
		var looks []string
		first := work.Due
		work.Due = func(ctx context.Context, busy []string) ([]string, time.Time, error) {
			slices.Sort(busy)
			looks = append(looks, fmt.Sprint(busy, " after ", time.Since(start)))
			return first(ctx, busy)
		}
		time.AfterFunc(30*time.Second, func() { engine.LookAgain(work.Look) })
		work.Run(ctx)
		want := []string{"[] after 0s", "[ann bob] after 30s", "[bob] after 1m0s", "[] after 1m1s"}
		if !slices.Equal(looks, want) {
			t.Errorf("looks with the busy users: %q, want %q", looks, want)
		}
	})
}

// When its context ends nobody pauses, and nobody waits for others.
func TestTheEndIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		var begun atomic.Int64
		newWork(users(usersAtOnce+1), func(context.Context, []string) error {
			begun.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}).Run(ctx)
		if took := time.Since(start); took != time.Minute || begun.Load() != usersAtOnce {
			t.Errorf("it took %s, and work began for %d; want 1m0s, %d", took, begun.Load(), usersAtOnce)
		}
	})
}

// What is due is done for each user as a whole, in the order in which the users come first. A
// look that fails is told, what it found is done all the same, and another look follows.
func TestDueWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var told []string
		var mu sync.Mutex
		tell := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, what)
		}
		looks := 0
		engine.DueWork[string]{
			Due: func(context.Context, []string) ([]string, time.Time, error) {
				switch looks++; looks {
				case 1:
					return []string{"bob", "ann", "ben", "carl", "anna"}, time.Time{}, errors.New("one cannot be read")
				case 2:
					return nil, time.Now().Add(time.Second), nil
				default:
					cancel()
					return nil, time.Time{}, nil
				}
			},
			UserOf: func(name string) string { return name[:1] },
			Do: func(_ context.Context, names []string) error {
				time.Sleep(time.Hour * time.Duration(names[0][0]-'a')) // in order
				tell(fmt.Sprint(names))
				return nil
			},
			Failed:    func(user string, err error) { tell(user + err.Error()) },
			Look:      make(chan struct{}, 1),
			Heartbeat: time.Minute,
			Now:       time.Now,
		}.Run(ctx)
		if want := []string{"one cannot be read", "[ann anna]", "[bob ben]", "[carl]"}; !slices.Equal(told, want) {
			t.Errorf("got %q, want %q", told, want)
		}
		if took := time.Since(start); took != 2*time.Hour {
			t.Errorf("it took %s, want 2h0m0s", took)
		}
	})
}
