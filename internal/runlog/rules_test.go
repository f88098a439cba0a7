package runlog_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// TestLifeOfARun follows a run, made by the rules of workflows, through every kind of
// step, a failure and a resumption, and reads its log on the way (contract, workflows
// 6.3 and 6.6).
func TestLifeOfARun(t *testing.T) {
	l := newLife(t)
	const begun = "RUN_STARTED\nsequential: init Initial STEP_SUCCESS\n"

	l.submit(workflow.Item{RunID: "wfr_1", Init: true, Features: posthaste.FeatureTriggerOnConfig, Publication: engine.Publication{
		Destination: workflowURL,
		Body:        []byte("payload"),
		Settings: posthaste.Settings{
			Retries:         new(int),
			Header:          http.Header{"X-User": {"v"}},
			FailureCallback: &posthaste.Callback{URL: "https://app.example/failed"},
		},
	}})
	l.check("triggered", begun+"next: STEP_PROGRESS\n")

	l.attempt("", l.publishes(
		`{"stepId":0,"stepName":"a","stepType":"Run","concurrent":2,"targetStep":1}`,
		`{"stepId":0,"stepName":"child","stepType":"Invoke","concurrent":2,"targetStep":2}`))
	l.check("planned", begun+"parallel: 1 a Run STEP_PROGRESS | 2 child Invoke STEP_PROGRESS\n")

	l.attempt(`"a"`, l.publishes(`{"stepId":1,"stepName":"a","stepType":"Run","out":"1","concurrent":2}`))
	l.attempt(`"child"`, func() {
		l.submit(workflow.Item{RunID: "wfr_child", Init: true, WorkflowURL: workflowURL,
			Publication: engine.Publication{Destination: workflowURL, Body: []byte("for the child")},
			Invocation: &workflow.Invocation{
				Invoker: workflow.RunID{ID: "wfr_1"},
				Step:    []byte(`{"stepId":2,"stepName":"child","stepType":"Invoke","concurrent":2}`),
			}})
	})
	l.check("a branch done, a child going on", begun+"parallel: 1 a Run STEP_SUCCESS | 2 child Invoke STEP_PROGRESS\n")
	if step := l.runs("workflowRunId=wfr_1").Runs[0].Groups[1].Steps[1]; step.InvokedID != "wfr_child" || step.InvokedBody != "for the child" {
		t.Errorf("the invoking step is %+v", step)
	}
	if child := l.runs("workflowRunId=wfr_child").Runs[0]; child.Invoker == nil || child.Invoker.ID != "wfr_1" {
		t.Errorf("the child's invoker is %+v", child.Invoker)
	}

	result := `"done"`
	l.attempt("for the child", func() {
		if err := l.rules.Finish(t.Context(), "ann", workflow.RunID{ID: "wfr_child"}, &result); err != nil {
			t.Fatal(err)
		}
	})
	const group = begun + "parallel: 1 a Run STEP_SUCCESS | 2 child Invoke STEP_SUCCESS\n"
	l.attempt(`"a"`, nil) // overtaken
	l.check("all branches done", group+"next: STEP_PROGRESS\n")

	l.attempt(`"child"`, func() {
		l.submit(workflow.Item{RunID: "wfr_1", WorkflowURL: workflowURL, CallType: posthaste.CallRequest,
			Features: posthaste.FeatureNoDelete, Publication: engine.Publication{
				Destination: "https://third.example", Body: []byte("asked"),
				Settings: posthaste.Settings{Retries: new(int), Callback: &posthaste.Callback{
					URL: workflowURL, Settings: posthaste.Settings{Header: http.Header{
						"Upstash-Workflow-Stepid": {"3"}, "Upstash-Workflow-Stepname": {"ask"},
						"Upstash-Workflow-Steptype": {"Call"}, "Upstash-Workflow-Concurrent": {"1"},
					}}}},
			}})
	})
	l.check("calling", group+"sequential: 3 ask Call STEP_PROGRESS\n")
	l.answer("asked", failure(404))
	l.check("called", group+"sequential: 3 ask Call STEP_PROGRESS\n")
	l.attempt("sourceMessageId", l.publishes(`{"stepId":3,"stepName":"ask","stepType":"Call","out":"{}","concurrent":1}`))
	const asked = group + "sequential: 3 ask Call STEP_SUCCESS\n"
	l.check("with the result of the call", asked+"next: STEP_PROGRESS\n")
	if step := l.runs("workflowRunId=wfr_1").Runs[0].Groups[2].Steps[0]; step.CallURL != "https://third.example" || step.CallResponseStatus != 404 {
		t.Errorf("the calling step is %+v", step)
	}

	l.attempt(`"ask"`, func() {
		_, err := l.rules.Wait(t.Context(), "ann", workflow.WaitRequest{
			Run: workflow.RunID{ID: "wfr_1"}, EventID: "go", Timeout: time.Hour, TimeoutText: "1h", TimeoutURL: workflowURL,
			Step:  []byte(`{"stepId":4,"stepName":"hold","stepType":"Wait","concurrent":1}`),
			Shown: posthaste.WaiterShown{URL: workflowURL},
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	l.check("waiting", asked+"sequential: 4 hold Wait STEP_PROGRESS\n")
	if _, err := l.rules.Notify(t.Context(), "ann", "go", []byte("hi")); err != nil {
		t.Fatal(err)
	}
	const told = asked + "sequential: 4 hold Wait STEP_SUCCESS\n"
	l.check("notified", told+"next: STEP_PROGRESS\n")

	l.attempt(`"hold"`, func() {
		l.submit(workflow.Item{RunID: "wfr_1", WorkflowURL: workflowURL, Publication: engine.Publication{
			Destination: workflowURL, Delay: time.Hour,
			Body: []byte(`{"stepId":5,"stepName":"nap","stepType":"SleepFor","sleepFor":3600,"concurrent":1}`),
		}})
	})
	l.check("asleep", told+"sequential: 5 nap SleepFor STEP_PROGRESS next\n")
	l.after(time.Hour)
	const awake = told + "sequential: 5 nap SleepFor STEP_SUCCESS\n"
	l.check("awake", awake+"next: STEP_PROGRESS\n")

	l.answer(`"nap"`, failure(500))
	failed := "RUN_FAILED" + awake[len("RUN_STARTED"):] + "next: STEP_FAILED 500\n"
	l.check("failed", failed)
	l.answer("dlqId", posthaste.Outcome{Class: posthaste.OutcomeDelivered, Response: &posthaste.Response{Status: 200, Body: []byte("{}")}})
	l.check("its failure is told", failed)
	run := l.runs("workflowRunId=wfr_1").Runs[0]
	if f := run.Failure; f == nil || f.State != posthaste.CallbackSuccess || f.FailStatus != 500 || f.FailResponse != "no" || f.DLQID != run.DLQID {
		t.Errorf("the failure callback is %+v", f)
	}

	resumed := l.resume(run.DLQID)
	if successor := l.runs("workflowRunId=wfr_1").Runs[0].Successor; successor == nil || successor.ID != resumed {
		t.Errorf("the successor is %+v, want %s", successor, resumed)
	}
	l.runID = resumed
	l.check("resumed", awake+"next: STEP_PROGRESS\n")
	if origin := l.runs("workflowRunId=" + resumed).Runs[0].ResumeOf; origin == nil || origin.ID != "wfr_1" || origin.DLQID != run.DLQID {
		t.Errorf("the new run resumes %+v", origin)
	}
	l.attempt(`"nap"`, func() {
		if err := l.rules.Finish(t.Context(), "ann", workflow.RunID{ID: resumed}, nil); err != nil {
			t.Fatal(err)
		}
	})
	l.check("done", "RUN_SUCCESS"+awake[len("RUN_STARTED"):])

	l.checkEvents("wfr_1", []string{
		"RUN_STARTED", "STEP_SUCCESS init Initial",
		"STEP_PROGRESS 1 a Run", "STEP_PROGRESS 2 child Invoke",
		"STEP_SUCCESS 1 a Run", "STEP_SUCCESS 2 child Invoke",
		"STEP_PROGRESS 3 ask Call", "STEP_PROGRESS 3 ask Call", "STEP_SUCCESS 3 ask Call",
		"STEP_SUCCESS 4 hold Wait",
		"STEP_PROGRESS 5 nap SleepFor next", "STEP_FAILED 500", "RUN_FAILED",
	})
	l.checkEvents("wfr_child", []string{"RUN_STARTED", "STEP_SUCCESS init Initial", "RUN_SUCCESS"})
	l.checkEvents(resumed, []string{"RUN_STARTED", "STEP_SUCCESS 5 nap SleepFor", "RUN_SUCCESS"})
}

const workflowURL = "https://app.example/wf"

// life is a world whose runs are made by the rules of workflows. Their deliveries are
// answered by the test.
type life struct {
	*world
	rules *workflow.Service
	runID string // of the run that is looked at
}

func newLife(t *testing.T) *life {
	t.Helper()
	l := &life{world: newWorld(t), runID: "wfr_1"}
	l.rules = workflow.New(workflow.Options{Store: l.store, Now: func() time.Time { return l.now }, Entropy: l.entropy})
	return l
}

func (l *life) submit(item workflow.Item) {
	l.Helper()
	if _, err := l.rules.Submit(l.Context(), "ann", []workflow.Item{item}); err != nil {
		l.Fatal(err)
	}
}

// publishes returns what an endpoint does that publishes steps.
func (l *life) publishes(steps ...string) func() {
	return func() {
		for _, step := range steps {
			l.submit(workflow.Item{RunID: l.runID, WorkflowURL: workflowURL,
				Publication: engine.Publication{Destination: workflowURL, Body: []byte(step)}})
		}
	}
}

// attempt delivers the message that has a text in its body: the endpoint does
// something, if anything, and takes it.
func (l *life) attempt(text string, do func()) {
	l.Helper()
	claim := l.claim(text)
	if do != nil {
		do()
	}
	l.settleAs(claim, posthaste.Outcome{Class: posthaste.OutcomeDelivered, Response: &posthaste.Response{Status: 200}})
}

// answer lets an attempt of the message that has a text in its body come out so.
func (l *life) answer(text string, outcome posthaste.Outcome) {
	l.Helper()
	l.settleAs(l.claim(text), outcome)
}

// claim claims the message that is due and has a text in its body.
func (l *life) claim(text string) (claim store.Claim) {
	l.Helper()
	claims, _, err := l.store.Claim(l.Context(), l.now, 100)
	if err != nil {
		l.Fatal(err)
	}
	var rest []store.Claim
	for _, c := range claims {
		if claim.Message == nil && strings.Contains(string(c.Message.Body), text) {
			claim = c
		} else {
			rest = append(rest, c)
		}
	}
	if claim.Message == nil {
		l.Fatalf("no message with %s is due, but %d others", text, len(rest))
	}
	if err := l.store.Release(l.Context(), l.now, rest); err != nil {
		l.Fatal(err)
	}
	return claim
}

func (l *life) settleAs(claim store.Claim, outcome posthaste.Outcome) {
	l.Helper()
	if _, err := l.store.Settle(l.Context(), l.now, l.rules.Settle(claim, outcome, l.now)); err != nil {
		l.Fatal(err)
	}
}

// resume resumes a failed run and returns the id of the new one.
func (l *life) resume(dlqID string) string {
	l.Helper()
	id, ok := posthaste.ParseDeadLetterID(dlqID)
	if !ok {
		l.Fatalf("%q is no id of a dead letter", dlqID)
	}
	done, _, err := l.rules.Restart(l.Context(), "ann", workflow.RestartRequest{IDs: []posthaste.DeadLetterID{id}, Resume: true})
	if err != nil || len(done.Results) != 1 {
		l.Fatalf("resumed %v, %v", done.Results, err)
	}
	return done.Results[0].Run.ID
}

func (l *life) check(when, want string) {
	l.Helper()
	run, err := l.store.LatestRun(l.Context(), "ann", l.runID)
	if err != nil {
		l.Fatal(err)
	}
	if diff := cmp.Diff(want, l.outlineOf(run.RunRef)); diff != "" {
		l.Errorf("%s: run differs (-want +got):\n%s", when, diff)
	}
}

func (l *life) checkEvents(runID string, want []string) {
	l.Helper()
	var got []string
	for _, line := range l.events("order=earliestFirst&workflowRunId=" + runID) {
		got = append(got, strings.TrimPrefix(line, runID+" "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("events of %s differ (-want +got):\n%s", runID, diff)
	}
}
