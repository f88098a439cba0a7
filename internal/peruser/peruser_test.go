package peruser

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
)

func nothing() {}

// One user's work hangs, and so does that of others up to the bound: who comes then waits
// for the first of them.
func TestUsersAreWorkedForSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crew := newCrew(nothing)
		start := time.Now()
		var most, now atomic.Int64
		for i := range 2 * atOnce {
			crew.do(t.Context(), fmt.Sprint(i), func() bool {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Minute)
				now.Add(-1)
				return true
			})
		}
		crew.running.Wait()
		if took := time.Since(start); took != 2*time.Minute || most.Load() != atOnce {
			t.Errorf("it took %s with %d at once, want 2m0s with %d", took, most.Load(), atOnce)
		}
	})
}

// A user is busy while worked for, and for a while after work that failed; each end of it
// is told.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := 0
		crew := newCrew(func() { freed++ })
		work := func(succeeds bool) func() bool {
			return func() bool {
				time.Sleep(time.Minute)
				return succeeds
			}
		}
		crew.do(t.Context(), "ann", work(true))
		crew.do(t.Context(), "bob", work(false))
		wantBusy(t, crew, "ann", "bob")
		time.Sleep(time.Minute)
		synctest.Wait()
		wantBusy(t, crew, "bob")
		time.Sleep(rest)
		synctest.Wait()
		wantBusy(t, crew)
		if freed != 2 {
			t.Errorf("told %d times that a user is busy no more, want 2", freed)
		}
	})
}

func wantBusy(t *testing.T, crew *crew, want ...string) {
	t.Helper()
	got := crew.allBusy()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("busy are %q, want %q", got, want)
	}
}

// When its context ends nobody rests, and nobody waits for others.
func TestTheEndIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		crew := newCrew(nothing)
		for i := range atOnce {
			crew.do(ctx, fmt.Sprint(i), func() bool {
				<-ctx.Done()
				return false
			})
		}
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		crew.do(ctx, "too many", func() bool {
			t.Error("work began after the end")
			return true
		})
		crew.running.Wait()
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it took %s, want 1m0s", took)
		}
	})
}

// What is due is done for each user as a whole, in the order in which the users come first. A
// look that fails is told, what it found is done all the same, and another look follows.
func TestRun(t *testing.T) {
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
		Work[string]{
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
