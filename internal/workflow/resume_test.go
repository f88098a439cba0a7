package workflow_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"posthaste"
)

// TestResume fails runs at every kind of delivery and resumes them: what was done
// is kept, and what is missing is done once (contract, workflows 7.4 and D 32 and 33).
func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		flow   flow
		broken string   // the delivery that fails
		kept   string   // steps that were done before, and not again
		done   string   // steps that are done by the run that resumes
		list   []string // of that run; nil: in an order that does not matter
		result string
	}{
		"the start": {
			flow{{run("a")}, {run("b")}}, "start",
			"", "a b", []string{"start", "a", "b"}, "<a> <b>",
		},
		"a step": {
			flow{{run("a")}, {run("b")}, {run("c")}}, "b",
			"a b", "c", []string{"start", "a", "b", "c"}, "<a> <b> <c>",
		},
		"the last step": {
			flow{{run("a")}, {run("b")}}, "b",
			"a b", "", []string{"start", "a", "b"}, "<a> <b>",
		},
		"a sleep": {
			flow{{run("a")}, {sleep("s", time.Minute)}, {run("b")}}, "s",
			"a", "b", []string{"start", "a", "s", "b"}, "<a> slept <b>",
		},
		"a plan": {
			flow{{run("a"), run("b"), run("c")}, {run("d")}}, "plan b",
			"a c", "b d", nil, "<a> <b> <c> <d>",
		},
		"a plan, its siblings sleeping": {
			flow{{run("a"), sleep("s", 2*time.Hour)}, {run("d")}}, "plan a",
			"", "a d", nil, "<a> slept <d>",
		},
		"a result of a group": {
			flow{{run("a"), sleep("s", time.Minute)}, {run("d")}}, "s",
			"a", "d", nil, "<a> slept <d>",
		},
		"the answer of a call": {
			flow{{call("c", "http://third/ok", 0)}, {run("a")}}, "answer c",
			"", "a", []string{"start", "fromCallback", "c", "a"}, "200answer 200 <a>",
		},
		"a call that is no answer": {
			flow{{run("a")}, {step{name: "c", kind: "Call", url: "http://third/ok"}}}, "call",
			"a", "", nil, "<a> 200answer 200",
		},
		"a step beside a call": {
			flow{{call("c", "http://third/slow", 0), run("a")}, {run("d")}}, "plan a",
			"", "a d", nil, "200answer 200 <a> <d>",
		},
		"an event": {
			flow{{wait("w", "e", time.Minute)}, {run("a")}}, "w",
			"", "a", []string{"start", "w", "a"}, "timeout <a>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var repaired atomic.Bool
			breaks := func(v visit) fault {
				if v.what == c.broken && !repaired.Load() {
					return refuse
				}
				return noFault
			}
			inWorld(t, setup{flows: map[string]flow{"wf": c.flow}, fault: breaks}, func(w *world) {
				w.trigger("wf", "r", retries(0))
				w.pass(time.Hour)
				w.wantState("r", posthaste.RunFailed)
				failed := w.run("r")
				before := w.list(failed)
				entries := len(before)

				repaired.Store(true)
				id := w.restart("r", true)
				w.pass(3 * time.Hour)
				w.wantSuccess(id, c.result)
				for _, step := range strings.Fields(c.kept) {
					w.wantDone("r", step, 1)
					w.wantDone(id, step, 0)
				}
				for _, step := range strings.Fields(c.done) {
					w.wantDone(id, step, 1)
				}
				if c.list != nil {
					w.wantList(id, c.list...)
				}
				w.wantKept(before, w.list(w.run(id)), c.broken)
				w.wantState("r", posthaste.RunFailed)
				if got := len(w.list(failed)); got != entries {
					t.Errorf("the list of the failed run has %d entries, and had %d", got, entries)
				}
			})
		})
	}
}

// TestResumeUsesAnswersOfCalls fails runs around a call that succeeds, and resumes them: the
// call is made once, whether its answer came before the failure or after it, or whether the
// endpoint had taken it. A call that failed is made again.
func TestResumeUsesAnswersOfCalls(t *testing.T) {
	beside := flow{{call("pay", "http://third/pay", 0), run("a")}, {run("d")}}
	for name, c := range map[string]struct {
		flow   flow
		broken string        // the delivery that fails
		takes  time.Duration // that the endpoint takes to fail
		slow   time.Duration // that the call takes
		status []int         // of the call; nil: 200
		calls  int
		result string
	}{
		"answered after the failure": {
			beside, "plan a", 0, time.Minute, nil, 1, "200answer 200 <a> <d>",
		},
		"answered, and the answer not delivered before the failure": {
			beside, "plan a", time.Minute, time.Minute - latency, nil, 1, "200answer 200 <a> <d>",
		},
		"asked for by a step that failed": {
			flow{{run("a")}, {call("pay", "http://third/pay", 0)}, {run("d")}}, "a lost", 0, time.Minute, nil, 1, "<a> 200answer 200 <d>",
		},
		"used before the failure": {
			beside, "plan a", time.Minute, 0, nil, 1, "200answer 200 <a> <d>",
		},
		"failed after the failure": {
			beside, "plan a", 0, time.Minute, []int{500, 200}, 2, "200answer 200 <a> <d>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var repaired atomic.Bool
			breaks := func(v visit) fault {
				switch {
				case repaired.Load():
				case v.what == c.broken:
					return refuse
				case v.what+" lost" == c.broken:
					return loseAnswer
				}
				return noFault
			}
			inWorld(t, setup{flows: map[string]flow{"wf": c.flow}, fault: breaks}, func(w *world) {
				if c.status != nil {
					w.behave["pay"] = answers(c.status...)
				}
				w.takes = func(v visit) time.Duration {
					switch v.what {
					case "call":
						return c.slow
					case c.broken:
						return c.takes
					}
					return 0
				}
				w.trigger("wf", "r", retries(0))
				w.pass(time.Hour)
				w.wantState("r", posthaste.RunFailed)
				repaired.Store(true)
				id := w.restart("r", true)
				w.pass(time.Hour)
				w.wantSuccess(id, c.result)
				calls := 0
				for _, v := range w.visits {
					if v.what == "call" {
						calls++
					}
				}
				if calls != c.calls {
					t.Errorf("the call was made %d times, want %d", calls, c.calls)
				}
			})
		})
	}
}

// wantKept requires the list of a run that resumes another to begin with the steps of
// that one, byte for byte. Their message ids are the same, too, except for what was
// delivered again: the entry that failed, and plans.
func (w *world) wantKept(before, after []posthaste.RunEntry, failed string) {
	w.t.Helper()
	isRequest := func(e posthaste.RunEntry) bool { return e.CallType != posthaste.CallStep }
	before, after = slices.DeleteFunc(before, isRequest), slices.DeleteFunc(after, isRequest)
	if len(after) < len(before) {
		w.t.Fatalf("%d of %d steps are kept", len(after), len(before))
	}
	for i, was := range before {
		name := describe(was)
		if string(after[i].Body) != string(was.Body) {
			w.t.Errorf("step %d is %s, and was %s", i, after[i].Body, was.Body)
		}
		if after[i].MessageID != was.MessageID && name != failed && !strings.HasPrefix(name, "plan ") {
			w.t.Errorf("the message id of step %q has changed", name)
		}
	}
}

// TestResumeAgain resumes a run whose next step goes on failing, again and again: no
// step is done twice, and each run knows the one before.
func TestResumeAgain(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}, {run("b")}, {run("c")}}}, fault: func(v visit) fault {
		if v.what == "b" && v.at < 3*time.Hour {
			return refuse
		}
		return noFault
	}}, func(w *world) {
		w.trigger("wf", "r", retries(0))
		w.pass(time.Hour)
		id := "r"
		for i := range 3 {
			next := w.restart(id, true)
			w.pass(time.Hour)
			if origin := w.run(next).Origin; origin == nil || origin.ID != id {
				t.Errorf("run %d comes from %+v, want %s", i, origin, id)
			}
			if successor := w.run(id).Successor; successor == nil || successor.ID != next {
				t.Errorf("run %d led to %+v, want %s", i, successor, next)
			}
			id = next
		}
		w.wantSuccess(id, "<a> <b> <c>")
		w.wantList(id, "start", "a", "b", "c")
		for _, step := range []string{"a", "b", "c"} {
			times := 0
			for _, run := range w.runs() {
				w.mu.Lock()
				times += w.done[run.ID+" "+step]
				w.mu.Unlock()
			}
			if times != 1 {
				t.Errorf("step %s was done %d times", step, times)
			}
		}
	})
}

// TestRestartAfterResume restarts a run that was resumed: nothing of it is kept.
func TestRestartAfterResume(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}, {run("b")}}}, fault: func(v visit) fault {
		if v.what == "a" && v.at < 2*time.Hour {
			return refuse
		}
		return noFault
	}}, func(w *world) {
		w.trigger("wf", "r", retries(0))
		w.pass(time.Hour)
		resumed := w.restart("r", true)
		w.pass(time.Hour)
		id := w.restart(resumed, false)
		w.pass(time.Hour)
		w.wantSuccess(id, "<a> <b>")
		w.wantDone(id, "a", 1)
		w.wantList(id, "start", "a", "b")
	})
}
