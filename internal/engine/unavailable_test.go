package engine_test

import (
	"context"
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

var errAway = &posthaste.Error{Code: posthaste.CodeUnavailable, Message: "the disk does not answer", Err: store.ErrUnavailable}

// shaky is a store that is unavailable for one call when away is set.
type shaky struct {
	store.Store
	away atomic.Bool
}

func (s *shaky) URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error) {
	if s.away.Swap(false) {
		return nil, errAway
	}
	return s.Store.URLGroup(ctx, user, name)
}

// Settle settles, and cannot tell so when it is away.
func (s *shaky) Settle(ctx context.Context, now time.Time, settlement store.Settlement) (store.Settlement, error) {
	settled, err := s.Store.Settle(ctx, now, settlement)
	if s.away.Swap(false) {
		return settled, errAway
	}
	return settled, err
}

func inShakyWorld(t *testing.T, options engine.Options, scenario func(w *world, s *shaky)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		shaken := &shaky{Store: s}
		options.Store, options.Dispatcher = shaken, answers(ok)
		w := &world{Engine: engine.New(options), t: t, store: s, start: time.Now()}
		w.Start()
		defer w.Stop(t.Context())
		scenario(w, shaken)
	})
}

func TestTickIsTriedAgainWhenTheStoreWasUnavailable(t *testing.T) {
	inShakyWorld(t, engine.Options{}, func(w *world, s *shaky) {
		err := w.store.UpdateURLGroup(w.t.Context(), w.start, user, "g", func(g *posthaste.URLGroup) error {
			g.Endpoints = []posthaste.Endpoint{{URL: "http://a.example/"}}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
		id, err := w.PutSchedule(w.t.Context(), posthaste.Schedule{User: user, Cron: "* * * * *", Destination: "g"})
		if err != nil {
			w.t.Fatal(err)
		}
		s.away.Store(true)
		w.pass(time.Minute + 2*time.Second)
		if schedule, err := w.Schedule(w.t.Context(), user, id); err != nil || schedule.Error != "" || len(schedule.LastMessages) != 1 {
			w.t.Errorf("schedule %+v, %v; want that its tick made a message", schedule, err)
		}
	})
}

// unavailableWorker is one whose first step the store refuses.
type unavailableWorker struct {
	countingWorker
	steps atomic.Int64
}

func (w *unavailableWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance engine.Advance) error {
	if w.steps.Add(1) == 1 {
		return errAway
	}
	return w.countingWorker.Step(ctx, action, advance)
}

func TestActionGoesOnWhenTheStoreWasUnavailable(t *testing.T) {
	worker := &unavailableWorker{}
	inShakyWorld(t, engine.Options{ActionWorkers: workers(worker)}, func(w *world, _ *shaky) {
		worker.store = w.store
		begun, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: "count"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.pass(2 * time.Second)
		wantCounted(w.t, w.Engine, begun.ID)
	})
}

// reports gathers what is told of attempts.
type reports struct {
	engine.Observer
	finished chan engine.AttemptReport
}

func (reports) Accepted(int)                                  {}
func (reports) AttemptStarted()                               {}
func (r reports) AttemptFinished(report engine.AttemptReport) { r.finished <- report }

// A settlement that took place, of which the store could not tell, is reported as one.
func TestSettlementThatTookPlaceUnknown(t *testing.T) {
	observer := reports{finished: make(chan engine.AttemptReport, 1)}
	inShakyWorld(t, engine.Options{Observer: observer}, func(w *world, s *shaky) {
		s.away.Store(true)
		w.publish(engine.Publication{})
		w.pass(time.Second)
		if report := <-observer.finished; report.State != posthaste.StateDelivered {
			w.t.Errorf("the attempt is reported as %s, want %s", report.State, posthaste.StateDelivered)
		}
	})
}

// unsigned is a Dispatcher that cannot read the key of its first request.
type unsigned struct{ attempts atomic.Int64 }

func (u *unsigned) Attempt(context.Context, *posthaste.Message, int) posthaste.Outcome {
	if u.attempts.Add(1) == 1 {
		return posthaste.Outcome{Unsigned: errAway}
	}
	return ok
}

// A message whose request could not be signed because the store was unavailable has lost no
// attempt.
func TestUnsignedIsNoAttempt(t *testing.T) {
	dispatcher := &unsigned{}
	inWorld(t, dispatcher, engine.Options{}, func(w *world) {
		id := w.publish(engine.Publication{Settings: posthaste.Settings{Retries: new(int)}})
		w.pass(5 * time.Second)
		w.wantLog(id, "0s CREATED", "0s ACTIVE", "1s ACTIVE", "1s DELIVERED")
	})
}
