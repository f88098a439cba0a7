package workflow_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// keptTurns is a store that is unavailable to one user while it is told so, which each of
// the user's transactions finds out after some time.
type keptTurns struct {
	store.Store
	user  atomic.Value // "": nobody's turn is kept
	tried atomic.Int64 // transactions of the user
}

const turnPatience = 10 * time.Second

func (k *keptTurns) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	if user != k.user.Load() {
		return k.Store.Transact(ctx, now, user, change)
	}
	k.tried.Add(1)
	select {
	case <-time.After(turnPatience):
	case <-ctx.Done():
	}
	return &posthaste.Error{Code: posthaste.CodeUnavailable, Message: "the turn is kept", Err: store.ErrUnavailable}
}

// The turn of a user who has more waits due than are looked at once is kept: those of
// another end on time, and hers when it is over. Each look tries one of hers.
func TestAUserWhoseTurnIsKeptStopsNoWaitOfOthers(t *testing.T) {
	var kept *keptTurns
	wrap := func(s store.Store) store.Store {
		kept = &keptTurns{Store: s}
		return kept
	}
	flows := map[string]flow{"wf": {{wait("a", "e", time.Minute)}}}
	inWorld(t, setup{flows: flows, wrap: wrap, options: workflow.Options{Logger: quiet}}, func(w *world) {
		const hers = "eve"
		for n := range 150 {
			w.runWaiting(hers, fmt.Sprint("hers", n), time.Minute)
		}
		w.trigger("wf", "r")
		w.at(30 * time.Second)
		kept.user.Store(hers)
		w.at(time.Minute + time.Second)
		w.wantSuccess("r", "timeout")
		w.at(2 * time.Minute)
		if tried, want := kept.tried.Load(), int64(6); tried > want {
			t.Errorf("%d transactions in a minute found the turn kept, want %d at most", tried, want)
		}
		kept.user.Store("")
		w.pass(2 * turnPatience)
		if left, err := w.EventWaiters(w.t.Context(), hers, "e"); err != nil || len(left) > 0 {
			t.Errorf("%d waits go on, %v, want none", len(left), err)
		}
	})
}

// runWaiting starts a run of a user that waits for event e, and goes nowhere from there.
func (w *world) runWaiting(user, id string, timeout time.Duration) {
	w.t.Helper()
	item := w.setup.sdk.trigger(site+"wf", id, "payload")
	if _, err := w.Submit(w.t.Context(), user, []workflow.Item{item}); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.Wait(w.t.Context(), user, workflow.WaitRequest{
		Run: workflow.RunID{ID: id}, EventID: "e", Step: []byte(`{"stepId":1,"stepType":"Wait"}`),
		Timeout: timeout, TimeoutText: timeout.String(), TimeoutURL: site + "wf",
		Shown: posthaste.WaiterShown{URL: site + "wf"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
