package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// slowTicks is a store that does something before each tick, which may refuse it.
type slowTicks struct {
	store.Store
	before func(ctx context.Context, schedule *posthaste.Schedule) error
}

func (s slowTicks) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	if err := s.before(ctx, after); err != nil {
		return err
	}
	return s.Store.Tick(ctx, now, before, after, messages)
}

func inTickingWorld(t *testing.T, before func(context.Context, *posthaste.Schedule) error, scenario func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		w := &world{Engine: engine.New(engine.Options{Store: slowTicks{s, before}, Dispatcher: answers(ok)}), t: t, store: s, start: time.Now()}
		w.Start()
		defer w.Stop(t.Context())
		scenario(w)
	})
}

func (w *world) schedule(user, id, cron string) {
	w.t.Helper()
	if _, err := w.PutSchedule(w.t.Context(), posthaste.Schedule{User: user, ID: id, Cron: cron, Destination: "http://a.example/"}); err != nil {
		w.t.Fatal(err)
	}
}

// wantTicked requires the last tick of a schedule to be that of a time since the start;
// none if that is 0.
func (w *world) wantTicked(user, id string, want time.Duration) {
	w.t.Helper()
	schedule, err := w.Schedule(w.t.Context(), user, id)
	if err != nil {
		w.t.Fatal(err)
	}
	var last time.Duration
	if !schedule.LastAt.IsZero() {
		last = schedule.LastAt.Sub(w.start)
	}
	if last != want {
		w.t.Errorf("schedule %s of %s ticked last at %v, want %v", id, user, last, want)
	}
}

// The turn of a user who has more due than is looked at once is kept: others tick on time,
// and hers when it is over.
func TestAUserWhoseTurnIsKeptStopsNoTickOfOthers(t *testing.T) {
	const patience = 10 * time.Second
	var kept atomic.Bool
	kept.Store(true)
	keep := func(ctx context.Context, schedule *posthaste.Schedule) error {
		if schedule.User != "ann" || !kept.Load() {
			return nil
		}
		select {
		case <-time.After(patience):
		case <-ctx.Done():
		}
		return errAway
	}
	inTickingWorld(t, keep, func(w *world) {
		for n := range 250 {
			w.schedule("ann", fmt.Sprint(n), "* * * * *")
		}
		w.schedule("bob", "every minute", "* * * * *")
		for minute := range 3 {
			w.pass(time.Until(w.start.Add(time.Duration(minute+1)*time.Minute + time.Second)))
			w.wantTicked("bob", "every minute", time.Duration(minute+1)*time.Minute)
		}
		w.wantTicked("ann", "0", 0)
		kept.Store(false)
		w.pass(patience + 2*time.Second)
		for n := range 250 {
			w.wantTicked("ann", fmt.Sprint(n), time.Minute)
		}
	})
}

// One schedule never ticks: all others do, also those of its user that are due later.
func TestAScheduleThatFailsStopsNoOther(t *testing.T) {
	damaged := func(_ context.Context, schedule *posthaste.Schedule) error {
		if schedule.ID == "damaged" {
			return errors.New("it is damaged")
		}
		return nil
	}
	inTickingWorld(t, damaged, func(w *world) {
		w.schedule("ann", "damaged", "1 * * * *")
		w.schedule("ann", "later", "2 * * * *")
		w.schedule("bob", "later", "2 * * * *")
		w.pass(2*time.Minute + 2*time.Second)
		w.wantTicked("ann", "damaged", 0)
		w.wantTicked("ann", "later", 2*time.Minute)
		w.wantTicked("bob", "later", 2*time.Minute)
	})
}

// Ticks of the same time take no longer together than one alone.
func TestTicksOfTheSameTimeShareIt(t *testing.T) {
	slow := func(context.Context, *posthaste.Schedule) error {
		time.Sleep(time.Second)
		return nil
	}
	inTickingWorld(t, slow, func(w *world) {
		for n := range 50 {
			w.schedule("ann", fmt.Sprint(n), "* * * * *")
			w.schedule("bob", fmt.Sprint(n), "* * * * *")
		}
		w.pass(time.Minute + time.Second)
		for n := range 50 {
			w.wantTicked("ann", fmt.Sprint(n), time.Minute)
			w.wantTicked("bob", fmt.Sprint(n), time.Minute)
		}
	})
}

// A schedule is changed after its tick has read it and before the tick is committed. The
// change stays, and the tick is made of the changed schedule.
func TestATickUndoesNoChange(t *testing.T) {
	var w *world
	changed := false
	change := func(ctx context.Context, schedule *posthaste.Schedule) error {
		if changed {
			return nil
		}
		changed = true
		return w.store.UpdateSchedule(ctx, time.Now(), schedule.User, schedule.ID, func(s *posthaste.Schedule) error {
			s.Body = []byte("changed")
			return nil
		})
	}
	inTickingWorld(t, change, func(in *world) {
		w = in
		w.schedule("ann", "s", "* * * * *")
		w.pass(time.Minute + time.Second)
		w.wantTicked("ann", "s", time.Minute)
		schedule, err := w.Schedule(t.Context(), "ann", "s")
		if err != nil || string(schedule.Body) != "changed" || len(schedule.LastMessages) != 1 {
			t.Fatalf("the schedule after its tick is %+v, %v; want the changed body and one message", schedule.Schedule, err)
		}
		sent, err := w.store.Message(t.Context(), "ann", schedule.LastMessages[0])
		if err != nil || string(sent.Message.Body) != "changed" {
			t.Errorf("the tick sent %+v, %v; want the changed body", sent.Message, err)
		}
	})
}
