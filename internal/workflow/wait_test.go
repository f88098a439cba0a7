package workflow_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/workflow"
)

// Contract, workflows 4.6 and 4.8.
func TestNotify(t *testing.T) {
	flows := map[string]flow{
		"wf":    {{wait("a", "e", time.Hour)}, {run("b")}},
		"twice": {{wait("a", "e", time.Minute)}, {wait("b", "e", time.Minute)}},
		"both":  {{wait("a", "e", time.Hour), sleep("b", time.Second)}, {wait("c", "f", time.Minute), wait("d", "e", time.Minute)}},
	}
	t.Run("a run", func(t *testing.T) {
		inWorld(t, setup{flows: flows}, func(w *world) {
			w.trigger("wf", "r")
			w.trigger("wf", "other")
			w.at(time.Minute)
			told := w.notify("r", "e", "news")
			if told.Waiter == nil || told.Run.ID != "r" {
				t.Errorf("told %+v, want the waiter of r", told)
			}
			w.pass(time.Minute)
			w.wantVisits("0 wf start", "0 wf start", "60000 wf a", "60001 wf b")
			w.wantSuccess("r", "news <b>")
			w.wantState("other", posthaste.RunStarted)
		})
	})
	t.Run("everyone", func(t *testing.T) {
		inWorld(t, setup{flows: flows}, func(w *world) {
			w.trigger("wf", "r")
			w.at(10 * time.Millisecond)
			w.trigger("wf", "s")
			w.at(20 * time.Millisecond)
			w.trigger("twice", "t")
			w.at(time.Second)
			w.notifyAll("e", "news", "r", "s", "t")
			w.notifyAll("e", "too late")
			w.pass(2 * time.Minute)
			w.wantSuccess("r", "news <b>")
			w.wantSuccess("s", "news <b>")
			w.wantSuccess("t", "news timeout")
		})
	})
	t.Run("more than one commit takes", func(t *testing.T) {
		inWorld(t, setup{flows: flows}, func(w *world) {
			var runs []string
			for n := range 250 {
				runs = append(runs, fmt.Sprintf("r%d", n))
				w.trigger("wf", runs[n])
				w.pass(time.Millisecond)
			}
			w.pass(time.Second)
			w.notifyAll("e", "news", runs...)
			w.pass(time.Second)
			w.wantSuccess("r0", "news <b>")
			w.wantSuccess("r249", "news <b>")
		})
	})
	t.Run("nobody", func(t *testing.T) {
		inWorld(t, setup{flows: flows}, func(w *world) {
			w.notifyAll("e", "lost")
			w.trigger("wf", "r")
			w.pass(time.Minute)
			w.wantVisits("0 wf start")
		})
	})
	t.Run("two kept, in order", func(t *testing.T) {
		inWorld(t, setup{flows: flows}, func(w *world) {
			w.trigger("twice", "r", func(item *workflow.Item) { item.Delay = time.Second })
			if told := w.notify("r", "e", "first"); told.Waiter != nil {
				t.Errorf("told %+v, want nobody", told)
			}
			w.notify("r", "e", "second")
			w.notify("r", "other", "third")
			w.pass(time.Minute)
			w.wantVisits("1000 twice start", "1001 twice a", "1002 twice b")
			w.wantSuccess("r", "first second")
		})
	})
	t.Run("in groups", func(t *testing.T) {
		inWorld(t, setup{flows: flows}, func(w *world) {
			w.trigger("both", "r")
			w.at(10 * time.Second)
			w.notify("r", "e", "one")
			w.at(20 * time.Second)
			w.notify("r", "e", "two")
			w.pass(2 * time.Minute)
			w.wantVisits("0 both start", "1 both plan a", "1001 both plan b", "1002 both b",
				"10000 both a", "10001 both plan c", "10001 both plan d", "20000 both d", "70002 both c")
			w.wantSuccess("r", "one slept timeout two")
		})
	})
	t.Run("no data", func(t *testing.T) {
		inWorld(t, setup{flows: flows}, func(w *world) {
			w.trigger("wf", "r")
			w.at(time.Second)
			w.notify("r", "e", "")
			w.pass(time.Second)
			w.wantStep("r", 1, fields{"stepId": 1.0, "waitEventId": "e", "waitTimeout": false, "out": nil})
			w.wantSuccess("r", "nothing <b>")
		})
	})
}

// TestWaitSteps proves what SDKs read of a wait that has ended (contract, workflows
// 4.6).
func TestWaitSteps(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{wait("a", "e", time.Minute)}, {wait("b", "e", time.Minute)}}}}, func(w *world) {
		w.trigger("wf", "r")
		w.at(time.Second)
		w.notify("r", "e", "news")
		w.pass(2 * time.Minute)
		w.wantStep("r", 1, fields{
			"stepId": 1.0, "stepName": "a", "stepType": "Wait", "concurrent": 1.0,
			"waitEventId": "e", "waitTimeout": false, "out": "bmV3cw==",
		})
		w.wantStep("r", 2, fields{
			"stepId": 2.0, "stepName": "b", "stepType": "Wait", "concurrent": 1.0,
			"waitEventId": "e", "waitTimeout": true, "timeout": "1m0s", "out": nil,
		})
	})
}

// fields are some of a JSON object; nil: it is not there.
type fields map[string]any

// wantStep requires an entry of a run's list to be a step with these fields, among
// others.
func (w *world) wantStep(id string, index int, want fields) {
	w.t.Helper()
	list := w.list(w.run(id))
	if index >= len(list) {
		w.t.Fatalf("the list of run %s has %d entries", id, len(list))
	}
	var got map[string]any
	if err := json.Unmarshal(list[index].Body, &got); err != nil {
		w.t.Errorf("entry %d is no JSON: %v", index, err)
	}
	for name, value := range want {
		if got[name] != value {
			w.t.Errorf("entry %d of run %s has %s: %v, want %v", index, id, name, got[name], value)
		}
	}
}

// notifyAll gives an event to all that wait for it, which are these runs.
func (w *world) notifyAll(event, data string, want ...string) {
	w.t.Helper()
	told, err := w.Notify(w.t.Context(), user, event, []byte(data))
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, n := range told {
		got = append(got, n.Run.ID)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		w.t.Errorf("told (-want +got):\n%s", diff)
	}
}
