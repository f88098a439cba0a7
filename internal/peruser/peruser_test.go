package peruser_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"posthaste/internal/peruser"
)

func nothing() {}

// One user's work hangs, and so does that of others up to the bound: who comes then waits
// for the first of them.
func TestUsersAreWorkedForSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crew := peruser.New(nothing)
		start := time.Now()
		var most, now atomic.Int64
		for i := range 2 * peruser.AtOnce {
			crew.Do(t.Context(), fmt.Sprint(i), func() bool {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Minute)
				now.Add(-1)
				return true
			})
		}
		crew.Wait()
		if took := time.Since(start); took != 2*time.Minute || most.Load() != peruser.AtOnce {
			t.Errorf("it took %s with %d at once, want 2m0s with %d", took, most.Load(), peruser.AtOnce)
		}
	})
}

// A user is busy while worked for, and for a while after work that failed; each end of it
// is told.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed := 0
		crew := peruser.New(func() { freed++ })
		work := func(succeeds bool) func() bool {
			return func() bool {
				time.Sleep(time.Minute)
				return succeeds
			}
		}
		crew.Do(t.Context(), "ann", work(true))
		crew.Do(t.Context(), "bob", work(false))
		wantBusy(t, crew, "ann", "bob")
		time.Sleep(time.Minute)
		synctest.Wait()
		wantBusy(t, crew, "bob")
		time.Sleep(peruser.Rest)
		synctest.Wait()
		wantBusy(t, crew)
		if freed != 2 {
			t.Errorf("told %d times that a user is busy no more, want 2", freed)
		}
	})
}

func wantBusy(t *testing.T, crew *peruser.Crew, want ...string) {
	t.Helper()
	got := crew.Busy()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("busy are %q, want %q", got, want)
	}
}

// When its context ends nobody rests, and nobody waits for others.
func TestTheEndIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		crew := peruser.New(nothing)
		for i := range peruser.AtOnce {
			crew.Do(ctx, fmt.Sprint(i), func() bool {
				<-ctx.Done()
				return false
			})
		}
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		crew.Do(ctx, "too many", func() bool {
			t.Error("work began after the end")
			return true
		})
		crew.Wait()
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it took %s, want 1m0s", took)
		}
	})
}

func TestSort(t *testing.T) {
	var got []string
	for initial, names := range peruser.Sort([]string{"bob", "ann", "ben", "carl", "anna"}, func(name string) string { return name[:1] }) {
		got = append(got, fmt.Sprint(initial, names))
	}
	if want := []string{"b[bob ben]", "a[ann anna]", "c[carl]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
