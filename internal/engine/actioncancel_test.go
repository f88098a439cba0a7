package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// gated is a store in which each cancellation of messages waits to be let in.
type gated struct {
	store.Store
	letIn chan struct{}
}

func (g gated) Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *store.Step) ([]posthaste.MessageID, error) {
	<-g.letIn
	return g.Store.Cancel(ctx, now, user, ids, step)
}

// An action that is cancelled while a step is at hand keeps what it has done, and does
// nothing more: the step comes too late.
func TestActionIsCancelled(t *testing.T) {
	for name, elsewhere := range map[string]bool{"by the engine that does it": false, "by another one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := ledger.Over(lsm.Open("data", lsm.Options{FS: vfs.NewMem()}))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				var shared jobs
				letIn := make(chan struct{})
				does := engine.New(engine.Options{Store: gated{process{s, &shared, "does"}, letIn}, Dispatcher: answers(ok)})
				other := engine.New(engine.Options{Store: process{s, &shared, "other"}, Dispatcher: answers(ok)})
				does.Start()
				defer does.Stop(t.Context())
				other.Start()
				defer other.Stop(t.Context())
				asked := does
				if elsewhere {
					asked = other
				}
				w := &world{Engine: asked, t: t, store: s, start: time.Now()}
				w.cancelAction(does, letIn)
			})
		})
	}
}

func (w *world) cancelAction(does *engine.Engine, letIn chan<- struct{}) {
	w.t.Helper()
	const messages, aStep = 450, 200
	for range messages {
		w.publish(engine.Publication{Delay: time.Hour})
	}
	begun, err := does.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: posthaste.ActionCancel})
	if err != nil {
		w.t.Fatal(err)
	}
	letIn <- struct{}{}
	w.pass(time.Second) // the second step is at hand
	cancelled, err := w.CancelAction(w.t.Context(), user, begun.ID)
	if err != nil || !cancelled.Cancelled || !cancelled.CompletedAt.Equal(time.Now()) || cancelled.Processed != aStep {
		w.t.Fatalf("action %+v, %v; want it cancelled now, with %d processed", cancelled, err, aStep)
	}
	letIn <- struct{}{}
	w.pass(time.Minute) // the other engine looks for what nobody does
	left, _, err := w.store.LiveMessages(w.t.Context(), user, store.LiveQuery{Limit: messages})
	if err != nil || len(left) != messages-aStep {
		w.t.Errorf("%d messages are left, %v; want %d", len(left), err, messages-aStep)
	}
	again, err := w.CancelAction(w.t.Context(), user, begun.ID)
	if diff := cmp.Diff(cancelled, again); err != nil || diff != "" {
		w.t.Errorf("cancelled again: %v (-first +again):\n%s", err, diff)
	}
	if _, err := w.CancelAction(w.t.Context(), "stranger", begun.ID); !errors.Is(err, store.ErrNotFound) {
		w.t.Errorf("a stranger cancels it: %v, want ErrNotFound", err)
	}
}

func TestActionThatIsDoneIsNotCancelled(t *testing.T) {
	inWorld(t, answers(ok), engine.Options{}, func(w *world) {
		begun, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: posthaste.ActionCancel})
		if err != nil {
			w.t.Fatal(err)
		}
		w.pass(time.Second)
		done := w.finished(begun.ID)
		after, err := w.CancelAction(w.t.Context(), user, begun.ID)
		if diff := cmp.Diff(done, after); err != nil || diff != "" {
			w.t.Errorf("CancelAction: %v (-done +after):\n%s", err, diff)
		}
	})
}

// failingWorker is one whose steps all fail.
type failingWorker struct {
	countingWorker
	steps *atomic.Int64
}

func (w failingWorker) Step(context.Context, *posthaste.BulkAction, engine.Advance) error {
	w.steps.Add(1)
	return errors.New("a record is damaged")
}

// An action that does not get on is tried no more once it is cancelled.
func TestActionThatFailsIsCancelled(t *testing.T) {
	var steps atomic.Int64
	inWorld(t, answers(ok), engine.Options{ActionWorkers: workers(failingWorker{steps: &steps})}, func(w *world) {
		begun, err := w.StartAction(w.t.Context(), posthaste.BulkAction{User: user, Kind: "count"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.pass(3500 * time.Millisecond)
		if _, err := w.CancelAction(w.t.Context(), user, begun.ID); err != nil {
			w.t.Fatal(err)
		}
		w.pass(time.Second)
		tried := steps.Load()
		w.pass(time.Minute)
		if more := steps.Load() - tried; tried == 0 || more != 0 {
			w.t.Errorf("%d steps until the action was cancelled, and %d more", tried, more)
		}
	})
}
