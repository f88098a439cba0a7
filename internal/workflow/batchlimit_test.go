package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// slowStore is a store whose transactions take a while for each run, once it is slow: as
// those of a database do that is far away.
type slowStore struct {
	store.Store
	slow *atomic.Bool
}

// Transact implements store.Store.
func (s slowStore) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	return s.Store.Transact(ctx, now, user, func(tx store.RunTx) error {
		if s.slow.Load() {
			tx = slowTx{tx}
		}
		return change(tx)
	})
}

type slowTx struct{ store.RunTx }

// DLQEntry implements store.RunTx.
func (tx slowTx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	time.Sleep(400 * time.Millisecond)
	return tx.RunTx.DLQEntry(id)
}

// Run implements store.RunTx.
func (tx slowTx) Run(at posthaste.Position) (*posthaste.Run, error) {
	time.Sleep(400 * time.Millisecond)
	return tx.RunTx.Run(at)
}

// A commit of something that is done to many runs is bounded, and what is behind it is done
// by those that follow.
func TestManyRunsAreDoneInPortions(t *testing.T) {
	const runs = 10
	for _, bound := range []struct {
		name    string
		payload int
		slow    bool
		atMost  int // in one commit
	}{
		{"slow", 10, true, 3},
		{"large", 900_000, false, 5},
	} {
		if testing.Short() && !bound.slow {
			continue
		}
		for _, kind := range []posthaste.ActionKind{
			posthaste.ActionRestart, posthaste.ActionResume, posthaste.ActionDeleteRuns, posthaste.ActionCancelRuns,
		} {
			if !bound.slow && kind != posthaste.ActionRestart && kind != posthaste.ActionResume {
				continue // it reads no payloads
			}
			t.Run(fmt.Sprint(bound.name, " ", kind), func(t *testing.T) {
				var slow atomic.Bool
				inWorld(t, manyRuns(&slow), func(w *world) {
					w.triggerMany(runs, bound.payload, kind == posthaste.ActionCancelRuns)
					slow.Store(bound.slow)
					total := 0
					for _, n := range w.do(kind) {
						if total += n; n < 1 || n > bound.atMost {
							t.Errorf("%d runs in one commit, want 1 to %d", n, bound.atMost)
						}
					}
					slow.Store(false)
					if total != runs {
						t.Errorf("done with %d runs, want %d", total, runs)
					}
				})
			})
		}
	}
}

// manyRuns is a world with a workflow that fails.
func manyRuns(slow *atomic.Bool) setup {
	return setup{
		flows: map[string]flow{"wf": {{run("a")}, throw(489)}},
		wrap:  func(s store.Store) store.Store { return slowStore{s, slow} },
	}
}

// triggerMany triggers runs with payloads of a size, which fail or go on.
func (w *world) triggerMany(n, payload int, goOn bool) {
	w.t.Helper()
	for i := range n {
		w.trigger("wf", fmt.Sprint("r", i), func(item *workflow.Item) {
			item.Body = []byte(strings.Repeat("x", payload))
			if goOn {
				item.Delay = time.Hour
			}
		})
	}
	w.pass(time.Minute)
}

// do does a bulk action to its end, and returns how many runs each step has changed.
func (w *world) do(kind posthaste.ActionKind) (steps []int) {
	w.t.Helper()
	const tooMany = 100
	worker := w.ActionWorkers()[kind]
	action := &posthaste.BulkAction{ID: "act_1", User: user, Kind: kind, CreatedAt: w.setup.now()}
	var err error
	if action.Total, action.Cursor, err = worker.Begin(w.t.Context(), action); err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.PutAction(w.t.Context(), action); err != nil {
		w.t.Fatal(err)
	}
	if kind == posthaste.ActionDeleteRuns {
		for _, run := range w.runs() {
			w.deleted[run.DeadLetterID] = true
		}
	}
	for !action.Finished() && len(steps) < tooMany {
		err := worker.Step(w.t.Context(), action, func(cursor posthaste.ActionCursor) *store.Step {
			return &store.Step{ActionID: action.ID, Advance: func(a *posthaste.BulkAction, processed int, _ []posthaste.ActionFailure) {
				steps = append(steps, processed)
				a.Cursor = cursor
				if cursor == (posthaste.ActionCursor{}) {
					a.CompletedAt = w.setup.now()
				}
			}}
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if action, err = w.store.Action(w.t.Context(), user, action.ID); err != nil {
			w.t.Fatal(err)
		}
	}
	return steps
}

// The same holds for what is asked for in one request: a restart leaves ids, the others go
// on by themselves.
func TestRequestsForManyRunsAreDoneInPortions(t *testing.T) {
	const runs = 10
	failed := func(w *world) (ids []posthaste.DeadLetterID, names []string) {
		for _, run := range w.runs() {
			ids, names = append(ids, run.DeadLetterID), append(names, run.ID)
		}
		return ids, names
	}
	tests := []struct {
		name string
		goOn bool
		do   func(w *world) (int, error)
	}{
		{"restart", false, func(w *world) (total int, err error) {
			left, _ := failed(w)
			for len(left) > 0 && err == nil {
				var done workflow.Restarts
				done, _, err = w.Restart(w.t.Context(), user, workflow.RestartRequest{IDs: left})
				if n := len(done.Results); n < 1 || n > 3 || n+len(done.Remaining) != len(left) {
					w.t.Fatalf("%d of %d runs are restarted, %d are left, %v", n, len(left), len(done.Remaining), err)
				}
				left = done.Remaining
				total += len(done.Results)
			}
			return total, err
		}},
		{"delete", false, func(w *world) (int, error) {
			ids, _ := failed(w)
			for _, id := range ids {
				w.deleted[id] = true
			}
			return w.DeleteFailed(w.t.Context(), user, ids)
		}},
		{"cancel some", true, func(w *world) (int, error) {
			_, names := failed(w)
			return w.CancelIDs(w.t.Context(), user, names)
		}},
		{"cancel what matches", true, func(w *world) (int, error) {
			return w.CancelMatching(w.t.Context(), user, store.RunQuery{High: posthaste.MaxPosition}, 0)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var slow atomic.Bool
			inWorld(t, manyRuns(&slow), func(w *world) {
				w.triggerMany(runs, 10, test.goOn)
				slow.Store(true)
				n, err := test.do(w)
				slow.Store(false)
				if n != runs || err != nil {
					t.Errorf("done with %d runs, %v, want %d", n, err, runs)
				}
			})
		})
	}
}

// What is there when something is done to all of it is all there is, whatever the clock
// says: positions do not step back with it.
func TestManyRunsWhileTheClockStepsBack(t *testing.T) {
	const runs = 3
	for _, test := range []struct {
		kind posthaste.ActionKind
		goOn bool
	}{
		{posthaste.ActionRestart, false}, {posthaste.ActionDeleteRuns, false}, {posthaste.ActionCancelRuns, true}, {"", true},
	} {
		t.Run(fmt.Sprintf("%q", test.kind), func(t *testing.T) {
			var offset atomic.Int64
			begin := manyRuns(new(atomic.Bool))
			begin.now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
			begin.options.Now = begin.now
			inWorld(t, begin, func(w *world) {
				w.triggerMany(runs, 10, test.goOn)
				offset.Store(int64(-time.Hour))
				total := 0
				if test.kind == "" {
					n, err := w.CancelMatching(w.t.Context(), user, store.RunQuery{High: posthaste.MaxPosition}, 0)
					if total = n; err != nil {
						t.Error(err)
					}
				} else {
					for _, n := range w.do(test.kind) {
						total += n
					}
				}
				if total != runs {
					t.Errorf("done with %d runs, want %d", total, runs)
				}
				offset.Store(0)
			})
		})
	}
}
