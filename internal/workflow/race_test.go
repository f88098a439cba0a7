package workflow_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest"
	"posthaste/internal/workflow"
)

// TestNextDeliveryDoesNotWaitForTheAnswer is race 1 (contract, workflows 3.7): the next
// step is published before its delivery is answered, and delivered at once unless a
// flow control holds the slot until the answer.
func TestNextDeliveryDoesNotWaitForTheAnswer(t *testing.T) {
	flowControl := func(item *workflow.Item) {
		item.FlowControl = posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 1}}
	}
	for name, c := range map[string]struct {
		edit   func(*workflow.Item)
		visits []string
	}{
		"free":                 {func(*workflow.Item) {}, []string{"0 wf start", "1 wf a", "2 wf b"}},
		"a parallelism of one": {flowControl, []string{"0 wf start", "10002 wf a", "20004 wf b"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}, {run("b")}}}}, func(w *world) {
				w.takes = func(visit) time.Duration { return 10 * time.Second }
				w.trigger("wf", "r", c.edit)
				w.pass(time.Minute)
				w.wantVisits(c.visits...)
				w.wantSuccess("r", "<a> <b>")
			})
		})
	}
}

// TestAnswersAfterTheEnd is race 2 (contract, workflows 3.7): whatever a delivery of a
// run that has ended is answered, nothing comes of it.
func TestAnswersAfterTheEnd(t *testing.T) {
	notAWorkflow := posthaste.Outcome{Class: posthaste.OutcomeDelivered, Response: &posthaste.Response{Status: 200, Header: http.Header{}}}
	for name, answer := range map[string]posthaste.Outcome{
		"200": answered(nil), "not a workflow": notAWorkflow, "500": outcome(500), "489": outcome(489), "lost": outcome(0),
	} {
		for end, last := range map[string]struct {
			flow  flow
			state posthaste.RunState
		}{
			"finished": {flow{}, posthaste.RunSuccess}, "cancelled": {flow{cancel()}, posthaste.RunCancelled},
		} {
			t.Run(end+", "+name, func(t *testing.T) {
				inWorld(t, setup{flows: map[string]flow{"wf": last.flow}}, func(w *world) {
					w.override = func(v visit) *posthaste.Outcome {
						w.override = nil
						w.answer(w.t.Context(), v)
						return &answer
					}
					w.trigger("wf", "r", retries(3))
					w.pass(time.Minute)
					w.wantVisits("0 wf start")
					w.wantState("r", last.state)
					status, err := w.store.Message(w.t.Context(), user, w.run("r").FirstID)
					want := posthaste.StateCancelled
					if answer.Class == posthaste.OutcomeDelivered {
						want = posthaste.StateDelivered
					}
					if err != nil || status.State != want {
						t.Errorf("the message is %s, %v, want %s", status.State, err, want)
					}
				})
			})
		}
	}
}

// TestLostAnswers is race 3 (contract, workflows 3.7 and D 56): a step whose answer was
// lost is done again and counts once; without retries the run fails although it went
// on.
func TestLostAnswers(t *testing.T) {
	lost := func(v visit) fault {
		if v.what == "a" && v.retried == 0 && v.message.Run.ID == "r" {
			return loseAnswer
		}
		return noFault
	}
	t.Run("retried", func(t *testing.T) {
		inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}, {run("b")}, {sleep("c", 5*time.Second)}}}, fault: lost}, func(w *world) {
			w.trigger("wf", "r", retries(1))
			w.pass(time.Minute)
			w.wantVisits("0 wf start", "1 wf a", "2 wf b", "1003 wf a again", "5003 wf c")
			w.wantDone("r", "b", 2)
			w.wantSuccess("r", "<a> <b> slept")
		})
	})
	t.Run("not retried", func(t *testing.T) {
		inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}, {run("b")}, {sleep("c", 5*time.Second)}}}, fault: lost}, func(w *world) {
			w.takes = func(v visit) time.Duration {
				if v.what == "a" {
					return time.Second
				}
				return 0
			}
			w.trigger("wf", "r", retries(0))
			w.at(2 * time.Second)
			w.wantVisits("0 wf start", "1 wf a", "2 wf b", "1003 wf failure")
			w.wantFailure("r", 503, "connection reset")
			w.wantList("r", "start", "a", "b", "c")
			resumed := w.restart("r", true)
			w.pass(time.Minute)
			w.wantSuccess(resumed, "<a> <b> slept")
			w.wantDone(resumed, "a", 0)
			w.wantDone(resumed, "b", 1) // by the delivery that failed
			w.wantDone(resumed, "c", 0)
		})
	})
}

// TestManyBranchesAtOnce is race 4 (contract, workflows 3.7 and 4.3): the branches of a
// group come in at the same moment, and exactly one delivery sees them all.
func TestManyBranchesAtOnce(t *testing.T) {
	const branches = 30
	var wide group
	var values []string
	for i := range branches {
		s := run(fmt.Sprint("branch ", i))
		wide, values = append(wide, s), append(values, s.value)
	}
	inWorld(t, setup{flows: map[string]flow{"wf": {wide, {run("last")}}}}, func(w *world) {
		w.trigger("wf", "r")
		w.pass(time.Minute)
		w.wantSuccess("r", strings.Join(append(values, "<last>"), " "))
		w.wantDone("r", "last", 1)
		if got, want := len(w.visits), 1+2*branches+1; got != want {
			t.Errorf("%d requests, want %d", got, want)
		}
	})
}

// ends counts attempts by the state that their message is reported to have entered, and
// those that are reported to have failed for good.
type ends struct {
	mu      sync.Mutex
	states  map[posthaste.State]int
	forGood int
}

func (*ends) Accepted(int)    {}
func (*ends) AttemptStarted() {}

func (e *ends) AttemptFinished(r engine.AttemptReport) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.states[r.State]++
	if r.FailedForGood() {
		e.forGood++
	}
}

// TestManyFailuresAtOnce has the branches of a group fail at the same moment: the run fails
// once, and once it is told.
func TestManyFailuresAtOnce(t *testing.T) {
	told := &ends{states: map[posthaste.State]int{}}
	wide := group{run("a"), run("b"), run("c"), run("d"), run("e")}
	inWorld(t, setup{flows: map[string]flow{"wf": {wide}}, observe: told}, func(w *world) {
		w.override = func(v visit) *posthaste.Outcome {
			if v.what == "start" {
				return nil
			}
			o := outcome(http.StatusInternalServerError)
			return &o
		}
		w.trigger("wf", "r", retries(0))
		w.pass(time.Minute)
		w.wantFailure("r", http.StatusInternalServerError, "500")
	})
	want := map[posthaste.State]int{
		posthaste.StateDelivered: 2, // the start and the failure callback
		posthaste.StateFailed:    1,
		posthaste.StateCancelled: len(wide) - 1,
	}
	if !maps.Equal(told.states, want) || told.forGood != 1 {
		t.Errorf("attempts end as %v, %d for good, want %v, one for good", told.states, told.forGood, want)
	}
}

// TestWhatWasInFlightIsSentAgain is race 5 (contract, workflows 3.7): after a crash every
// delivery without a final result is sent again, and a step that was accepted before
// counts once.
func TestWhatWasInFlightIsSentAgain(t *testing.T) {
	flows := map[string]flow{"wf": {{run("a")}, {run("b"), sleep("c", 2*time.Second)}, {run("d")}}}
	taken := &images{disk: vfs.NewCrashableMem()}
	inWorld(t, setup{flows: flows, disk: taken.disk, watch: taken}, func(w *world) {
		w.takes = func(visit) time.Duration { return 10 * time.Second }
		w.trigger("wf", "r")
		w.at(3 * time.Second)
		w.wantVisits("0 wf start", "1 wf a", "2 wf plan b", "3 wf b", "2002 wf plan c", "2003 wf c", "2004 wf d")
	})
	crash := taken.lastBefore(2 * time.Second)
	inWorld(t, setup{flows: flows, disk: crash.disk, delay: 2 * time.Second}, func(w *world) {
		w.pass(time.Minute)
		w.wantVisits("2000 wf a", "2000 wf b", "2000 wf plan b", "2000 wf start", "2002 wf plan c", "2003 wf c", "2004 wf d")
		w.wantSuccess("r", "<a> <b> slept <d>")
		w.wantList("r", "start", "a", "plan b", "plan c", "b", "c", "d")
	})
}

// Contract, workflows D 47 and D 48: of an event and a deadline, and of an event and the
// wait for it, that come at the same moment one is first, and nothing is lost or
// counted twice.
func TestNotifyAtTheSameMoment(t *testing.T) {
	const runs = 20
	for name, at := range map[string]time.Duration{
		"as the deadline": 10*time.Second + latency,
		"as the wait":     latency,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: map[string]flow{"wf": {{wait("a", "e", 10*time.Second)}, {sleep("b", time.Second)}}}}, func(w *world) {
				for i := range runs {
					w.trigger("wf", fmt.Sprint("r", i))
				}
				time.Sleep(at - time.Since(w.start))
				var calls sync.WaitGroup
				for i := range runs {
					calls.Go(func() { w.notify(fmt.Sprint("r", i), "e", "news") })
				}
				calls.Wait()
				w.pass(time.Minute)
				for i := range runs {
					run := w.run(fmt.Sprint("r", i))
					w.wantState(run.ID, posthaste.RunSuccess)
					if late := name == "as the deadline" && *run.Result == "timeout slept"; *run.Result != "news slept" && !late {
						t.Errorf("run %s returned %s", run.ID, *run.Result)
					}
				}
				if got := len(w.visits); got != 3*runs {
					t.Errorf("%d requests, want %d", got, 3*runs)
				}
			})
		})
	}
}

// Contract, workflows 5.1 and D 46: when a branch fails, those in flight finish, what
// they publish is refused, and nothing else is delivered.
func TestSiblingsOfAFailure(t *testing.T) {
	flows := map[string]flow{"wf": {{run("broken"), run("slow"), sleep("later", time.Minute)}}}
	inWorld(t, setup{flows: flows}, func(w *world) {
		w.behave["wf broken"] = answers(489)
		w.setup.fault = func(v visit) fault {
			if v.what == "plan slow" {
				time.Sleep(time.Second) // before it does anything
			}
			return noFault
		}
		w.trigger("wf", "r", retries(3))
		w.pass(2 * time.Minute)
		w.wantVisits("0 wf start", "1 wf plan broken", "1 wf plan slow", "3 wf failure")
		w.wantFailure("r", 489, "489")
		w.wantDone("r", "slow", 1)
		w.wantList("r", "start", "plan broken", "plan slow", "plan later")
		var states []posthaste.State
		for _, entry := range w.list(w.run("r")) {
			status, err := w.store.Message(w.t.Context(), user, entry.MessageID)
			if err != nil {
				t.Error(err)
			}
			states = append(states, status.State)
		}
		want := []posthaste.State{posthaste.StateDelivered, posthaste.StateFailed, posthaste.StateDelivered, posthaste.StateCancelled}
		if !slices.Equal(states, want) {
			t.Errorf("the messages are %v, want %v", states, want)
		}
	})
}

// TestCancelInFlight proves that a run that is cancelled ends at once, and what is in
// flight when it is answered (contract, workflows 3.7; decision 20).
func TestCancelInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		answer posthaste.Outcome
		want   posthaste.State
	}{
		"delivered": {answered(nil), posthaste.StateDelivered},
		"failed":    {outcome(489), posthaste.StateCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{}, func(w *world) {
				w.override = func(visit) *posthaste.Outcome { return &c.answer }
				w.takes = func(visit) time.Duration { return time.Minute }
				w.trigger("wf", "r")
				w.at(time.Second)
				for range 2 { // the second changes nothing
					if err := w.Cancel(w.t.Context(), user, workflow.RunID{ID: "r"}); err != nil {
						t.Fatal(err)
					}
					w.wantState("r", posthaste.RunCancelled)
				}
				_, err := w.Wait(w.t.Context(), user, workflow.WaitRequest{Run: workflow.RunID{ID: "r"}, EventID: "e", Step: []byte(`{"stepId":1,"stepType":"Wait"}`)})
				wantCode(t, "wait", err, posthaste.CodeEnded)
				w.pass(2 * time.Minute)
				status, err := w.store.Message(w.t.Context(), user, w.run("r").FirstID)
				if err != nil || status.State != c.want {
					t.Errorf("the message is %s, %v, want %s", status.State, err, c.want)
				}
				w.wantVisits("0 wf start")
				w.wantCallback("r", "")
			})
		})
	}
}

// TestStoreFaults lets calls of the store fail, before and after they took effect: a
// settlement concludes once however often it is tried, and an endpoint that was not
// answered repeats itself.
func TestStoreFaults(t *testing.T) {
	flows := map[string]flow{
		"wf": {
			{run("a"), call("b", "http://third/ok", 0), wait("c", "e", 5*time.Second)},
			{invoke("d", site+"child", "")}, {notify("f", "r", "e")}, {wait("g", "e", time.Minute)}, throw(489),
		},
		"child": {{run("x")}},
	}
	for _, method := range []string{"Transact", "Settle", "Claim", "DueWaiters"} {
		for fault, when := range map[storetest.Fault]string{storetest.Before: "before", storetest.After: "after"} {
			t.Run(method+" fails "+when, func(t *testing.T) {
				every := func(c storetest.Call) storetest.Fault {
					if c.Method == method && c.Number%3 == 0 {
						return fault
					}
					return storetest.NoFault
				}
				wrap := func(s store.Store) store.Store { return storetest.Faulty(s, every) }
				inWorld(t, setup{flows: flows, wrap: wrap, options: workflow.Options{Logger: quiet}}, func(w *world) {
					w.trigger("wf", "r", retries(100))
					w.pass(5 * time.Minute)
					w.wantFailure("r", 489, "489")
					w.wantCallback("r", posthaste.CallbackSuccess)
					if runs := w.runs(); len(runs) != 2 || len(w.list(runs[0])) != 12 {
						t.Errorf("%d runs, the list of the first has %d entries, want 2 and 12", len(runs), len(w.list(runs[0])))
					}
				})
			})
		}
	}
}

// TestClockStepsBack proves that a run which is created after one with the same id has
// ended is another one, also when the clock was set back in between (contract,
// workflows D 45).
func TestClockStepsBack(t *testing.T) {
	var back atomic.Int64
	now := func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
	flows := map[string]flow{"wf": {{run("a")}}}
	inWorld(t, setup{flows: flows, now: now, options: workflow.Options{Now: now}}, func(w *world) {
		w.at(time.Hour)
		first := w.trigger("wf", "r").Run
		w.pass(time.Second)
		back.Store(int64(30 * time.Minute))
		second := w.trigger("wf", "r").Run
		w.pass(time.Minute)
		w.wantSuccess("r", "<a>")
		if second.Position <= first.Position || second.CreatedAt.Before(first.CreatedAt) || len(w.runs()) != 2 {
			t.Errorf("the first run is %+v, the second %+v", first, second)
		}
	})
}

// TestResultsAreThereWhenResumed resumes runs in which the delivery failed that led to a
// step whose result has come since: it counts, and the step is not done anew (contract,
// workflows 4.9 and 7.4).
func TestResultsAreThereWhenResumed(t *testing.T) {
	for name, f := range map[string]flow{
		"invoked, alone":    {{run("a")}, {invoke("b", site+"child", "")}},
		"invoked, in group": {{run("a"), invoke("b", site+"child", "")}},
		"waited, alone":     {{run("a")}, {wait("b", "e", time.Second)}},
		"waited, in group":  {{run("a"), wait("b", "e", time.Second)}},
		"called, alone":     {{run("a")}, {call("b", "http://third/ok", 0)}},
		"called, in group":  {{run("a"), call("b", "http://third/ok", 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{"wf": append(slices.Clone(f), group{run("c")}), "child": {{sleep("x", time.Second)}}}
			leadsToB := func(v visit) bool { return v.what == "plan b" || len(f) == 2 && v.what == "a" }
			inWorld(t, setup{flows: flows}, func(w *world) {
				w.setup.fault = func(v visit) fault {
					switch {
					case v.message.Run.ID != "r":
						return noFault
					case leadsToB(v):
						return loseAnswer
					case v.what == "b":
						time.Sleep(10 * time.Second) // the run fails before it goes on
					}
					return noFault
				}
				w.takes = func(v visit) time.Duration {
					if v.message.Run.ID == "r" && leadsToB(v) {
						return 5 * time.Second // until the result is there
					}
					return 0
				}
				w.trigger("wf", "r", retries(0))
				w.at(30 * time.Second)
				w.wantState("r", posthaste.RunFailed)
				before := len(w.visits)
				resumed := w.restart("r", true)
				w.pass(30 * time.Second)
				w.wantState(resumed, posthaste.RunSuccess)
				w.wantDone(resumed, "c", 1)
				for _, v := range w.visits[before:] {
					if v.path != "wf" {
						t.Errorf("%s is asked for again", v)
					}
				}
			})
		})
	}
}
