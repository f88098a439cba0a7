package workflow_test

import (
	"encoding/json"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/workflow"
)

// TestInvokeSteps proves what SDKs read of an invocation that has ended (contract,
// workflows 4.9).
func TestInvokeSteps(t *testing.T) {
	for name, c := range map[string]struct {
		child flow
		want  string
	}{
		"success":   {flow{{run("x")}}, `{"body":"<x>","isFailed":false,"isCanceled":false}`},
		"failed":    {flow{throw(489)}, `{"isFailed":true,"isCanceled":false}`},
		"cancelled": {flow{cancel()}, `{"isFailed":false,"isCanceled":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{"wf": {{invoke("a", site+"child", "c")}}, "child": c.child}
			inWorld(t, setup{flows: flows}, func(w *world) {
				w.trigger("wf", "r")
				w.pass(time.Minute)
				w.wantStep("r", 1, fields{"stepId": 1.0, "stepName": "a", "stepType": "Invoke", "concurrent": 1.0})
				var step written
				if err := json.Unmarshal(w.list(w.run("r"))[1].Body, &step); err != nil {
					t.Fatal(err)
				}
				var got, want ended
				if err := json.Unmarshal([]byte(*step.Out), &got); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					t.Fatal(err)
				}
				if text(got.Body) != text(want.Body) || got.String() != want.String() {
					t.Errorf("the result is %s, want %s", *step.Out, c.want)
				}
				if child := w.run("c"); child.Invoker == nil || child.Invoker.ID != "r" {
					t.Errorf("the child was invoked by %+v, want r", child.Invoker)
				}
			})
		})
	}
}

// Contract, workflows 4.9 and D 25: a run does not take with it the runs that it
// invoked, and how these end is recorded in its list and delivered to nobody.
func TestInvokerEndsFirst(t *testing.T) {
	flows := map[string]flow{
		"waits":   {{invoke("a", site+"child", "c")}},
		"fails":   {{invoke("a", site+"child", "c"), run("broken")}},
		"child":   {{sleep("x", 10*time.Second)}},
		"another": {{invoke("a", site+"child", "c")}},
	}
	for name, c := range map[string]struct {
		path string
		end  func(w *world)
		want posthaste.RunState
		list []string
	}{
		"cancelled": {"waits", func(w *world) { w.cancel("r") }, posthaste.RunCancelled, []string{"start", "a"}},
		"failed":    {"fails", func(*world) {}, posthaste.RunFailed, []string{"start", "plan a", "plan broken", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: flows}, func(w *world) {
				w.behave["fails broken"] = answers(489)
				w.trigger(c.path, "r")
				w.at(5 * time.Second)
				c.end(w)
				w.wantState("r", c.want)
				w.wantState("c", posthaste.RunStarted)
				before := len(w.visits)
				w.trigger("another", "s") // waits for the same run
				w.pass(time.Minute)
				w.wantSuccess("c", "slept")
				w.wantSuccess("s", "[slept]")
				w.wantList("r", c.list...)
				w.wantState("r", c.want)
				if got := len(w.visits) - before; got != 3 {
					t.Errorf("%d more requests, want those of the child, and of the run that waits, which are 3", got)
				}
			})
		})
	}
}

// Contract, workflows D 31 and D 45.
func TestInvokedRunsAnew(t *testing.T) {
	flows := map[string]flow{
		"wf":    {{invoke("a", site+"child", "c")}, {sleep("b", time.Minute)}, {invoke("d", site+"child", "c")}},
		"child": {{run("x")}},
	}
	inWorld(t, setup{flows: flows}, func(w *world) {
		w.behave["child x"] = answers(489, 200)
		w.trigger("wf", "r")
		w.at(10 * time.Second)
		again := w.restart("c", false)
		w.pass(10 * time.Second)
		w.wantSuccess(again, "<x>")
		if run := w.run(again); run.Invoker != nil {
			t.Errorf("the restarted run has the invoker %+v", run.Invoker)
		}
		w.pass(time.Minute)
		w.wantSuccess("r", "failed slept [<x>]")
		if first, last := w.runs()[1], w.run("c"); first.ID != "c" || last.Position == first.Position {
			t.Errorf("the child's id names %+v, and named %+v", last, first)
		}
	})
}

// cancel cancels a run.
func (w *world) cancel(id string) {
	w.t.Helper()
	if err := w.Cancel(w.t.Context(), user, workflow.RunID{ID: id}); err != nil {
		w.t.Error(err)
	}
}
