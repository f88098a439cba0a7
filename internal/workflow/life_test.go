package workflow_test

import (
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// Contract, workflows 1.3: a run whose first delivery is delayed is there, and can be
// cancelled.
func TestDelayedTrigger(t *testing.T) {
	delayed := func(item *workflow.Item) { item.Delay = time.Hour }
	inWorld(t, setup{}, func(w *world) {
		w.trigger("wf", "r", delayed)
		w.trigger("wf", "s", delayed)
		w.at(time.Minute)
		w.wantState("r", posthaste.RunStarted)
		w.cancel("r")
		w.wantState("r", posthaste.RunCancelled)
		w.pass(2 * time.Hour)
		w.wantVisits("3600000 wf start")
		w.wantSuccess("s", "")
	})
}

// Contract, workflows D 50: a run whose endpoint answers and publishes nothing goes on,
// however long, until it is cancelled.
func TestStuckRun(t *testing.T) {
	inWorld(t, setup{}, func(w *world) {
		w.replaysNothing()
		w.trigger("wf", "r")
		w.pass(10 * time.Hour)
		w.wantState("r", posthaste.RunStarted)
		w.cancel("r")
		w.wantState("r", posthaste.RunCancelled)
	})
}

// Contract, workflows D 55: a failed run is restarted with its payload when the log tells
// nothing of it any more.
func TestRestartOutlivesTheLog(t *testing.T) {
	var repaired atomic.Bool
	inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}}}, fault: func(visit) fault {
		if repaired.Load() {
			return noFault
		}
		return refuse
	}}, func(w *world) {
		w.trigger("wf", "r", retries(0))
		w.pass(time.Hour)
		w.wantState("r", posthaste.RunFailed)
		w.forget(store.Horizon{Log: time.Now().Add(48 * time.Hour)})
		repaired.Store(true)
		id := w.restart("r", false)
		w.pass(time.Minute)
		w.wantSuccess(id, "<a>")
		w.forget(store.Horizon{Runs: time.Now().Add(48 * time.Hour)}) // an audit misses their log
	})
}

// forget removes what is older.
func (w *world) forget(than store.Horizon) {
	w.t.Helper()
	if _, err := w.store.Trim(w.t.Context(), user, than); err != nil {
		w.t.Fatal(err)
	}
}

// A run whose first delivery waits in a queue, or is tried again in one, goes on when that
// is deleted.
func TestARunOutlivesItsQueue(t *testing.T) {
	for name, paused := range map[string]bool{"waits in it": true, "is tried again in it": false} {
		t.Run(name, func(t *testing.T) {
			failsAtFirst := func(v visit) fault {
				if !paused && v.retried == 0 {
					return refuse
				}
				return noFault
			}
			inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}}}, fault: failsAtFirst}, func(w *world) {
				err := w.store.UpdateQueue(w.t.Context(), time.Now(), user, "q", func(q *posthaste.Queue) error {
					q.Parallelism, q.Paused = 1, paused
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				w.trigger("wf", "r", retries(1), func(item *workflow.Item) { item.Queue = "q" })
				w.pass(100 * time.Millisecond)
				w.wantState("r", posthaste.RunStarted)
				if err := w.store.DeleteQueue(w.t.Context(), time.Now(), user, "q"); err != nil {
					t.Fatal(err)
				}
				w.pass(time.Minute)
				w.wantSuccess("r", "<a>")
			})
		})
	}
}

// Contract, workflows 4.10, D 9, D 10 and D 18.
func TestEnds(t *testing.T) {
	text := "second"
	earlier := func(run *posthaste.Run) workflow.RunID {
		return workflow.RunID{ID: run.ID, CreatedAt: run.CreatedAt.Add(-time.Millisecond)}
	}
	for name, end := range map[string]func(w *world) error{
		"finish again":          func(w *world) error { return w.Finish(w.t.Context(), user, workflow.RunID{ID: "r"}, &text) },
		"cancel what has ended": func(w *world) error { return w.Cancel(w.t.Context(), user, workflow.RunID{ID: "r"}) },
		"finish an earlier run": func(w *world) error { return w.Finish(w.t.Context(), user, earlier(w.run("goes on")), &text) },
		"cancel an earlier run": func(w *world) error { return w.Cancel(w.t.Context(), user, earlier(w.run("goes on"))) },
		"finish an unknown run": func(w *world) error { return w.Finish(w.t.Context(), user, workflow.RunID{ID: "unknown"}, &text) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}}, "waits": {{wait("a", "e", 0)}}}}, func(w *world) {
				w.trigger("wf", "r")
				w.trigger("waits", "goes on")
				w.pass(time.Second)
				if err := end(w); err != nil {
					t.Error(err)
				}
				w.wantSuccess("r", "<a>")
				w.wantState("goes on", posthaste.RunStarted)
			})
		})
	}
	t.Run("cancel an unknown run", func(t *testing.T) {
		inWorld(t, setup{}, func(w *world) {
			wantCode(t, "cancel", w.Cancel(w.t.Context(), user, workflow.RunID{ID: "unknown"}), posthaste.CodeNotFound)
		})
	})
}

// Contract, workflows D 45: an id may be used again, and names the latest run.
func TestIDIsUsedAgain(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{wait("a", "e", time.Hour)}}}}, func(w *world) {
		first := w.trigger("wf", "r").Run
		w.pass(time.Second)
		w.notify("r", "e", "one")
		w.pass(time.Second)
		second := w.trigger("wf", "r").Run
		w.pass(time.Second)
		if first.Position == second.Position || second.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("the runs are %+v and %+v", first, second)
		}
		w.wantState("r", posthaste.RunStarted)
		w.notify("r", "e", "two")
		w.pass(time.Second)
		w.wantSuccess("r", "two")
		if run := w.runs()[0]; *run.Result != "one" {
			t.Errorf("the first run returned %s", *run.Result)
		}
	})
}

// Contract, workflows 6: many runs are cancelled at once, and those that have ended
// already are not counted.
func TestCancelMany(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{wait("a", "e", time.Hour)}}, "ends": {}}}, func(w *world) {
		for _, id := range []string{"a1", "a2", "b1", "b2", "b3"} {
			w.trigger("wf", id)
			w.pass(time.Millisecond)
		}
		w.trigger("ends", "b4")
		w.pass(time.Second)
		if n, err := w.CancelIDs(w.t.Context(), user, []string{"a1", "b4", "unknown", "a1"}); n != 1 || err != nil {
			t.Errorf("cancelled %d by id, %v, want 1", n, err)
		}
		all := store.RunQuery{Filter: posthaste.Filter{RunIDPrefixes: []string{"b"}}, High: posthaste.MaxPosition}
		if n, err := w.CancelMatching(w.t.Context(), user, all, 2); n != 2 || err != nil {
			t.Errorf("cancelled %d of those that match, %v, want 2", n, err)
		}
		w.wantState("b1", posthaste.RunStarted) // the oldest
		if n, err := w.CancelMatching(w.t.Context(), user, all, 0); n != 1 || err != nil {
			t.Errorf("cancelled %d of those that match, %v, want 1", n, err)
		}
		w.wantState("a2", posthaste.RunStarted)
		w.wantState("b4", posthaste.RunSuccess)
	})
}

// Contract, workflows 6.1: deliveries of a run may go through a queue, where each waits
// for the one before.
func TestQueue(t *testing.T) {
	queued := sdkTypeScript
	queued.queue = "q"
	flows := map[string]flow{
		"wf":    {{run("a"), run("b"), run("c")}, {run("d")}},
		"fails": {{run("broken"), run("x"), run("y")}},
	}
	slow := func(visit) time.Duration { return time.Second - 2*latency }
	t.Run("in order", func(t *testing.T) {
		inWorld(t, setup{flows: flows, sdk: queued}, func(w *world) {
			w.takes = slow
			w.trigger("wf", "r")
			w.pass(time.Minute)
			w.wantVisits("0 wf start", "1000 wf plan a", "2000 wf plan b", "3000 wf plan c", "4000 wf a", "5000 wf b", "6000 wf c", "7000 wf d")
			w.wantSuccess("r", "<a> <b> <c> <d>")
		})
	})
	t.Run("a failure makes room", func(t *testing.T) {
		inWorld(t, setup{flows: flows, sdk: queued}, func(w *world) {
			w.behave["fails broken"] = answers(500)
			w.trigger("fails", "r", retries(1))
			w.at(time.Second)
			w.trigger("wf", "s")
			w.pass(time.Minute)
			w.wantVisits("0 fails start", "2 fails plan broken", "1004 fails plan broken again", "1006 fails failure",
				"1006 wf start", "1008 wf plan a", "1010 wf plan b", "1012 wf plan c", "1014 wf a", "1016 wf b", "1018 wf c", "1020 wf d")
			w.wantFailure("r", 500, "500")
			w.wantSuccess("s", "<a> <b> <c> <d>")
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		inWorld(t, setup{flows: flows, sdk: queued}, func(w *world) {
			w.takes = slow
			w.trigger("wf", "r")
			w.at(1500 * time.Millisecond)
			w.trigger("wf", "s")
			w.cancel("r")
			w.at(10 * time.Second)
			w.wantSuccess("s", "<a> <b> <c> <d>")
			w.wantList("r", "start", "plan a", "plan b", "plan c", "a")
		})
	})
}

// TestRestartKeepsTheQueue restarts a run that failed at a later step: at once, and when the
// log has been removed since, and the first message with it.
func TestRestartKeepsTheQueue(t *testing.T) {
	for name, forgotten := range map[string]bool{"at once": false, "when the log is gone": true} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{"fails": {{run("a")}, {run("broken")}}}
			inWorld(t, setup{flows: flows}, func(w *world) {
				w.behave["fails broken"] = answers(500)
				w.trigger("fails", "r", retries(0), func(item *workflow.Item) { item.Queue = "q" })
				w.pass(time.Minute)
				w.wantFailure("r", 500, "500")
				if forgotten {
					w.forget(store.Horizon{Log: time.Now().Add(48 * time.Hour)})
					defer w.forget(store.Horizon{Runs: time.Now().Add(48 * time.Hour)}) // an audit misses their log
				}
				again := w.run(w.restart("r", false))
				first, err := w.store.Message(t.Context(), user, again.FirstID)
				if err != nil || first.Message.Queue != "q" {
					t.Errorf("the first message of the new run goes through queue %q, %v, want q", first.Message.Queue, err)
				}
			})
		})
	}
}

// TestForgottenInFlight lets retention remove a run while a delivery of it is still in
// flight: the answer is of no interest, and keeps nothing from coming to its end.
func TestForgottenInFlight(t *testing.T) {
	for name, answer := range map[string]posthaste.Outcome{"delivered": answered(nil), "failed": outcome(500)} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{}, func(w *world) {
				w.override = func(visit) *posthaste.Outcome { return &answer }
				w.takes = func(visit) time.Duration { return 2 * time.Hour }
				first := w.trigger("wf", "r").MessageID
				w.pass(time.Second)
				if err := w.Finish(w.t.Context(), user, workflow.RunID{ID: "r"}, nil); err != nil {
					t.Fatal(err)
				}
				w.pass(time.Hour)
				if trimmed, err := w.store.Trim(w.t.Context(), user, store.Horizon{Runs: time.Now()}); trimmed.Runs != 1 || err != nil {
					t.Fatalf("trimmed %+v, %v", trimmed, err)
				}
				w.pass(2 * time.Hour)
				if status, err := w.store.Message(w.t.Context(), user, first); err != nil || !status.State.Terminal() {
					t.Errorf("the message is %s, %v", status.State, err)
				}
			})
		})
	}
}
