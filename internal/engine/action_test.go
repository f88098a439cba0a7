package engine_test

import (
	"context"
	"errors"
	"sync"
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

func (w *world) finished(id string) *posthaste.BulkAction {
	w.t.Helper()
	action, err := w.Action(w.t.Context(), user, id)
	if err != nil || !action.Finished() {
		w.t.Fatalf("action %+v, %v; want it finished", action, err)
	}
	return action
}

func TestCancelInTheBackground(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		const messages = 450 // more than two steps
		for range messages {
			w.publish(engine.Publication{Delay: time.Hour, Settings: posthaste.Settings{Labels: []string{"l"}}})
		}
		kept := w.publish(engine.Publication{Delay: time.Hour})
		action, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: posthaste.ActionCancel, Filter: posthaste.Filter{Labels: []string{"l"}}})
		if err != nil || action.Total != messages {
			w.t.Fatalf("action %+v, %v; want a total of %d", action, err, messages)
		}
		w.pass(time.Second)
		if done := w.finished(action.ID); done.Processed != messages || done.Failed != 0 {
			w.t.Errorf("processed %d, failed %d; want %d and 0", done.Processed, done.Failed, messages)
		}
		w.pass(2 * time.Hour)
		w.wantLog(kept, "0s CREATED next 1h0m0s", "1h0m0s ACTIVE", "1h0m0.01s DELIVERED")
	})
}

// An action that another process began goes on where it stopped.
func TestActionsAreTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		w := &world{Engine: engine.New(engine.Options{Store: s, Dispatcher: answers(ok)}), t: t, store: s, start: time.Now()}
		for range 10 {
			w.publish(engine.Publication{Delay: time.Hour})
		}
		begun := posthaste.BulkAction{ID: "act_1", User: user, Kind: posthaste.ActionCancel, Total: 10, CreatedAt: time.Now()}
		if err := s.PutAction(t.Context(), &begun); err != nil {
			t.Fatal(err)
		}
		w.Start()
		w.pass(time.Second)
		if done := w.finished(begun.ID); done.Processed != 10 {
			t.Errorf("processed %d, want 10", done.Processed)
		}
		w.Stop(t.Context())
	})
}

// An action whose engine has ended is taken up by another one that runs already, and
// what the first one comes with late is not counted again.
func TestActionsOfTheDeadAreTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		hangs := &hangingWorker{countingWorker{s}, make(chan struct{})}
		var shared jobs
		dies := engine.New(engine.Options{Store: process{s, &shared, "dies"}, Dispatcher: answers(ok), ActionWorkers: workers(hangs)})
		lives := engine.New(engine.Options{Store: process{s, &shared, "lives"}, Dispatcher: answers(ok), ActionWorkers: workers(countingWorker{s})})
		dies.Start()
		lives.Start()
		time.Sleep(19 * time.Second)
		begun, err := dies.StartAction(t.Context(), posthaste.BulkAction{User: user, Kind: "count"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if action, err := lives.Action(t.Context(), user, begun.ID); err != nil || action.Finished() {
			t.Errorf("action %+v, %v; want that it is left to the engine that has just begun it", action, err)
		}
		time.Sleep(10 * time.Second)
		wantCounted(t, lives, begun.ID)
		close(hangs.late)
		time.Sleep(time.Second)
		wantCounted(t, lives, begun.ID)
		dies.Stop(t.Context())
		lives.Stop(t.Context())
	})
}

// jobs are those that processes hold which share a store.
type jobs struct {
	mu     sync.Mutex
	holder map[string]string
	until  map[string]time.Time
}

// process is a store as one of several processes has it.
type process struct {
	store.Store
	jobs *jobs
	name string
}

// TryLease implements store.Store.
func (p process) TryLease(_ context.Context, job string, leaseContext time.Duration) (bool, error) {
	p.jobs.mu.Lock()
	defer p.jobs.mu.Unlock()
	if p.jobs.holder == nil {
		p.jobs.holder, p.jobs.until = map[string]string{}, map[string]time.Time{}
	}
	if p.jobs.holder[job] != p.name && time.Now().Before(p.jobs.until[job]) {
		return false, nil
	}
	p.jobs.holder[job], p.jobs.until[job] = p.name, time.Now().Add(leaseContext)
	return true, nil
}

func wantCounted(t *testing.T, e *engine.Engine, id string) {
	t.Helper()
	if action, err := e.Action(t.Context(), user, id); err != nil || !action.Finished() || action.Processed != 1 {
		t.Errorf("action %+v, %v; want it finished with 1 processed", action, err)
	}
}

func workers(w engine.ActionWorker) map[posthaste.ActionKind]engine.ActionWorker {
	return map[posthaste.ActionKind]engine.ActionWorker{"count": w}
}

// countingWorker does all there is to do in one step.
type countingWorker struct{ store store.Store }

func (countingWorker) Begin(context.Context, *posthaste.BulkAction) (int, posthaste.ActionCursor, error) {
	return 1, posthaste.ActionCursor{}, nil
}

func (w countingWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance engine.Advance) error {
	step := advance(posthaste.ActionCursor{})
	_, err := w.store.Cancel(ctx, time.Now(), action.User, nil, &store.Step{
		ActionID: step.ActionID,
		Advance:  func(a *posthaste.BulkAction, _ int, _ []posthaste.ActionFailure) { step.Advance(a, 1, nil) },
	})
	return err
}

// hangingWorker is one whose step takes until late is closed.
type hangingWorker struct {
	countingWorker
	late chan struct{}
}

func (w *hangingWorker) Step(ctx context.Context, action *posthaste.BulkAction, advance engine.Advance) error {
	<-w.late
	return w.countingWorker.Step(ctx, action, advance)
}

// refusingWorker is one whose steps are refused.
type refusingWorker struct{ countingWorker }

func (refusingWorker) Step(context.Context, *posthaste.BulkAction, engine.Advance) error {
	return posthaste.Invalidf("it is refused")
}

// Overrides replace settings of what an action retries.
func TestRetryInTheBackground(t *testing.T) {
	inWorld(t, answers(broken), engine.Options{}, func(w *world) {
		w.publish(engine.Publication{Settings: retries(0)})
		w.pass(time.Second)
		later := posthaste.Overrides{Delay: time.Hour, Settings: posthaste.Settings{Labels: []string{"again"}}}
		action, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: posthaste.ActionRetry, Overrides: later})
		if err != nil || action.Total != 1 {
			w.t.Fatalf("action %+v, %v; want a total of 1", action, err)
		}
		w.pass(time.Second)
		if done := w.finished(action.ID); done.Processed != 1 {
			w.t.Errorf("processed %d, want 1", done.Processed)
		}
		live, _, err := w.store.LiveMessages(w.t.Context(), user, store.LiveQuery{Filter: posthaste.Filter{Labels: []string{"again"}}, Limit: 2})
		if err != nil || len(live) != 1 {
			w.t.Fatalf("messages %v, %v; want the one that was retried", live, err)
		}
		status, err := w.Message(w.t.Context(), user, live[0])
		if err != nil || status.Message.NotBefore.Sub(status.Message.CreatedAt) != time.Hour {
			w.t.Errorf("message %+v, %v; want it in an hour", status.Message, err)
		}
	})
}

func TestActionThatCannotGoOnIsGivenUp(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{ActionWorkers: workers(refusingWorker{})}, func(w *world) {
		action, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: "count"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.pass(time.Minute)
		done := w.finished(action.ID)
		if len(done.Failures) != 1 || done.Failures[0].Error != "it is refused" {
			w.t.Errorf("failures %+v, want the refusal", done.Failures)
		}
	})
}

// What failed before the clock was set back is there when an action begins.
func TestActionsWhileTheClockStepsBack(t *testing.T) {
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	inWorld(t, answers(broken), engine.Options{Now: now}, func(w *world) {
		w.publish(engine.Publication{Settings: retries(0)})
		w.pass(time.Second)
		offset.Store(int64(-time.Hour))
		action, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: posthaste.ActionDelete})
		if err != nil || action.Total != 1 {
			w.t.Fatalf("action %+v, %v; want a total of 1", action, err)
		}
		w.pass(time.Second)
		if done := w.finished(action.ID); done.Processed != 1 {
			w.t.Errorf("processed %d, want 1", done.Processed)
		}
		offset.Store(0)
	})
}

func TestUnknownActionIsRefused(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		_, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: "paint"})
		if e, ok := errors.AsType[*posthaste.Error](err); !ok || e.Code != posthaste.CodeInvalid {
			w.t.Errorf("StartAction = %v, want code invalid", err)
		}
	})
}
