package runlog_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/runlog"
	"posthaste/internal/store"
)

// Each change of a step has one event, and so has each change of a run: the cases of
// the package comment (contract, workflows 6.3).
func TestEvents(t *testing.T) {
	const began = "wfr_1 RUN_STARTED"
	const init = "wfr_1 STEP_SUCCESS init Initial"
	tests := []struct {
		name string
		live func(w *world, run *posthaste.Run)
		want []string // oldest first, after the run has begun
	}{
		{"a result", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.append(run, posthaste.CallStep, first)
			w.deliver()
		}, []string{"wfr_1 STEP_SUCCESS 1 first Run"}},
		{"a sleep", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.append(run, posthaste.CallStep, sleep, w.delayed)
			w.after(time.Hour)
			w.deliver()
		}, []string{"wfr_1 STEP_PROGRESS 1 nap SleepFor next", "wfr_1 STEP_SUCCESS 1 nap SleepFor"}},
		{"a sleep that is cancelled", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.append(run, posthaste.CallStep, sleep, w.delayed)
			w.end(run, posthaste.RunCancelled)
		}, []string{"wfr_1 STEP_PROGRESS 1 nap SleepFor next", "wfr_1 STEP_CANCELED 1 nap SleepFor", "wfr_1 RUN_CANCELED"}},
		{"what came after a sleep is cancelled", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.append(run, posthaste.CallStep, sleep, w.delayed)
			w.after(time.Hour)
			w.end(run, posthaste.RunCancelled)
		}, []string{"wfr_1 STEP_PROGRESS 1 nap SleepFor next", "wfr_1 STEP_CANCELED", "wfr_1 RUN_CANCELED"}},
		{"the next step fails", func(w *world, run *posthaste.Run) {
			w.retry(500)
			w.after(time.Minute)
			w.fail(run, 489)
		}, []string{"wfr_1 STEP_RETRY 500 next", "wfr_1 STEP_FAILED 489", "wfr_1 RUN_FAILED"}},
		{"the next step fails without an answer (D 17)", func(w *world, _ *posthaste.Run) {
			w.retry(0)
		}, []string{"wfr_1 STEP_RETRY 503 next"}},
		{"the next step is cancelled", func(w *world, run *posthaste.Run) {
			w.end(run, posthaste.RunCancelled)
		}, []string{"wfr_1 STEP_CANCELED", "wfr_1 RUN_CANCELED"}},
		{"a plan and its result", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.append(run, posthaste.CallStep, planA)
			w.retry(500)
			w.append(run, posthaste.CallStep, resultA)
		}, []string{"wfr_1 STEP_PROGRESS 1 a Run", "wfr_1 STEP_RETRY 1 a Run 500 next", "wfr_1 STEP_SUCCESS 1 a Run"}},
		{"a planned sleep", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.append(run, posthaste.CallStep, planNap, w.delayed)
			w.after(time.Hour)
			w.deliver()
		}, []string{"wfr_1 STEP_PROGRESS 2 b SleepFor next"}},
		{"a call that fails is answered", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.append(run, posthaste.CallRequest, "asked", asks)
			w.retry(500)
			w.after(time.Minute)
			w.settle(func(claim store.Claim) *store.Settlement {
				failed := store.Failed(claim, failure(404))
				return &failed
			})
			w.append(run, posthaste.CallAnswer, `{"status":404}`, func(m *posthaste.Message) { m.Header = stepHeader })
			w.append(run, posthaste.CallStep, called)
		}, []string{
			"wfr_1 STEP_PROGRESS 1 ask Call", "wfr_1 STEP_RETRY 1 ask Call 500 next",
			"wfr_1 STEP_PROGRESS 1 ask Call", "wfr_1 STEP_SUCCESS 1 ask Call",
		}},
		{"a failure callback is no step", func(w *world, run *posthaste.Run) {
			w.deliver()
			m := w.messageOf(run, posthaste.CallFailure)
			w.transact(func(tx store.RunTx) error { return tx.Accept(m) })
			w.retry(500)
		}, []string{}},
		{"the first entry is delivered once more (2.4)", func(w *world, run *posthaste.Run) {
			w.deliver()
			m := w.messageOf(run, posthaste.CallStep)
			w.transact(func(tx store.RunTx) error { return tx.Accept(m) })
			w.retry(500)
		}, []string{"wfr_1 STEP_RETRY 500 next"}},
		{"an entry that is no step", func(w *world, run *posthaste.Run) {
			w.append(run, posthaste.CallStep, "what?")
		}, []string{"wfr_1 STEP_SUCCESS"}},
		{"success", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.end(run, posthaste.RunSuccess)
		}, []string{"wfr_1 RUN_SUCCESS"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.live(w, w.start("wfr_1"))
			want := append([]string{began, init}, test.want...)
			if diff := cmp.Diff(want, w.events("order=earliestFirst")); diff != "" {
				t.Errorf("events differ (-want +got):\n%s", diff)
			}
			slices.Reverse(want)
			if diff := cmp.Diff(want, w.events("count=2")); diff != "" {
				t.Errorf("events, newest first, two at a time, differ (-want +got):\n%s", diff)
			}
		})
	}
}

// delayed delays a message by an hour.
func (w *world) delayed(m *posthaste.Message) { m.NotBefore = w.now.Add(time.Hour) }

// fail lets all that is due fail for good, and the run with it.
func (w *world) fail(run *posthaste.Run, status int) {
	w.Helper()
	w.settle(func(claim store.Claim) *store.Settlement {
		failed := store.Failed(claim, failure(status))
		failed.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error {
			held, err := tx.Run(run.Position)
			if err != nil {
				return err
			}
			held.State, held.CompletedAt, held.FailedID = posthaste.RunFailed, tx.Now(), claim.Message.ID
			held.DeadLetterID = posthaste.DeadLetterID(tx.NextPosition(held.Slot()))
			tx.Save(held)
			tx.Log(claim.Message, posthaste.StateRunFailed, "it failed")
			return nil
		}
		return &failed
	})
}

// stepHeader is how a call names its step.
var stepHeader = http.Header{
	"Upstash-Workflow-Stepid": {"1"}, "Upstash-Workflow-Stepname": {"ask"},
	"Upstash-Workflow-Steptype": {"Call"}, "Upstash-Workflow-Concurrent": {"1"},
}

func asks(m *posthaste.Message) {
	m.URL = "https://third.example"
	m.Callback = &posthaste.Callback{URL: "https://app.example/wf", Settings: posthaste.Settings{Header: stepHeader}}
}

// Contract, workflows 6.3: the filters of events.
func TestEventsFilters(t *testing.T) {
	w := newWorld(t)
	one := w.start("one", func(r *posthaste.Run) {
		r.Labels, r.CallerIP, r.FlowControl = []string{"x"}, "10.0.0.1", posthaste.FlowControl{Key: "k"}
	})
	w.retry(500)
	two := w.start("two", func(r *posthaste.Run) { r.URL = "https://other.example/p" })
	w.append(two, posthaste.CallStep, sleep, w.delayed)
	w.after(time.Second)
	w.end(two, posthaste.RunCancelled)
	ofOne := []string{"one STEP_RETRY 500 next", "one STEP_SUCCESS init Initial", "one RUN_STARTED"}
	ofTwo := []string{
		"two RUN_CANCELED", "two STEP_CANCELED 1 nap SleepFor", "two STEP_CANCELED",
		"two STEP_PROGRESS 1 nap SleepFor next", "two STEP_SUCCESS init Initial", "two RUN_STARTED",
	}
	all := slices.Concat(ofTwo, ofOne)
	tests := []struct {
		name, params string
		want         []string
	}{
		{"nothing given", "", all},
		{"empty values", "groupBy=&state=&workflowRunId=&label=", all},
		{"url", "workflowUrl=https://other.example/p", ofTwo},
		{"id", "workflowRunId=one", ofOne},
		{"creation", fmt.Sprintf("workflowCreatedAt=%d", one.CreatedAt.UnixMilli()), ofOne},
		{"named", fmt.Sprintf("workflowRuns=one@%d&state=x", one.CreatedAt.UnixMilli()), ofOne},
		{"named with the time of another", fmt.Sprintf("workflowRuns=one@%d", two.CreatedAt.UnixMilli()), []string{}},
		{"label", "label=x,y", ofOne},
		{"caller", "callerIp=10.0.0.1", ofOne},
		{"flow key", "flowControlKey=k", ofOne},
		{"message", "messageId=" + one.FirstID.String(), ofOne},
		{"host", "host=other.example", ofTwo},
		{"path", "path=/wf", ofOne},
		{"time", fmt.Sprintf("fromDate=%d", w.now.UnixMilli()), ofTwo[:3]},
		{"state of a run", "state=RUN_STARTED", []string{"two RUN_STARTED", "one RUN_STARTED"}},
		{"success", "state=STEP_SUCCESS", []string{"two STEP_SUCCESS init Initial", "one STEP_SUCCESS init Initial"}},
		{"progress", "state=STEP_PROGRESS", []string{"two STEP_PROGRESS 1 nap SleepFor next"}},
		{"failure, though an attempt failed", "state=STEP_FAILED", []string{}},
		{"states of both", "state=STEP_RETRY&state=run_canceled", []string{"two RUN_CANCELED", "one STEP_RETRY 500 next"}},
		{"cancelled", "state=STEP_CANCELED&count=1", []string{"two STEP_CANCELED 1 nap SleepFor", "two STEP_CANCELED"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, w.events(test.params)); diff != "" {
				t.Errorf("Events(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

// Contract, workflows 6.3: the fields of an event.
func TestEventFields(t *testing.T) {
	w := newWorld(t)
	parent := posthaste.RunRef{ID: "wfr_0", CreatedAt: noon, URL: "https://app.example/parent"}
	run := w.start("wfr_1", func(r *posthaste.Run) {
		r.Invoker, r.Labels, r.CallerIP = &parent, []string{"x", "y"}, "10.0.0.1"
		r.Header = http.Header{"Authorization": {"secret"}}
		r.Redact = posthaste.Redaction{Body: true, AllHeaders: true}
	})
	w.retry(500)
	w.after(time.Minute)
	w.fail(run, 500)
	other := w.start("wfr_2", func(r *posthaste.Run) { r.Redact.Body = true })
	w.change(other, func(tx store.RunTx, run *posthaste.Run) {
		result := "done"
		run.State, run.CompletedAt, run.Result = posthaste.RunSuccess, tx.Now(), &result
	})
	held, err := w.store.Run(t.Context(), "ann", run.Position)
	if err != nil {
		t.Fatal(err)
	}
	secret, payload := posthaste.Redacted([]byte("secret")), posthaste.Redacted([]byte("payload of wfr_1"))
	common := func(state string, run *posthaste.Run) string {
		return fmt.Sprintf(`"state":%q,"workflowRunId":%q,"workflowUrl":"https://app.example/wf","workflowCreatedAt":%d`,
			state, run.ID, run.CreatedAt.UnixMilli())
	}
	const labels = `"label":"x","labels":["x","y"],"callerIp":"10.0.0.1"`
	began := run.CreatedAt.UnixMilli()
	tests := []struct{ state, want string }{
		{"RUN_STARTED&workflowRunId=wfr_1", fmt.Sprintf(`{"time":%d,%s,%s,"headers":{"Authorization":[%q]},
			"invokerWorkflowRunId":"wfr_0","invokerWorkflowUrl":"https://app.example/parent","invokerWorkflowCreatedAt":%d}`,
			began, common("RUN_STARTED", run), labels, secret, noon.UnixMilli())},
		{"STEP_SUCCESS&workflowRunId=wfr_1", fmt.Sprintf(`{"time":%d,%s,%s,"stepInfo":{"stepName":"init","stepType":"Initial","callType":"step",
			"concurrent":1,"messageId":%q,"createdAt":%d,"headers":{"Authorization":[%q]},"out":%q,"retries":3,"state":"STEP_SUCCESS"}}`,
			began, common("STEP_SUCCESS", run), labels, run.FirstID, began, secret, payload)},
		{"STEP_RETRY", fmt.Sprintf(`{"time":%d,%s,%s,"stepInfo":{"messageId":%q,"createdAt":%d,"headers":{"Authorization":[%q]},"retries":3,"state":"STEP_RETRY"},
			"nextDeliveryTime":%d,"error":"500 Internal Server Error","responseStatus":500,"responseBody":"no"}`,
			began, common("STEP_RETRY", run), labels, run.FirstID, began, secret, began+60_000)},
		{"RUN_FAILED", fmt.Sprintf(`{"time":%d,%s,%s,"error":"it failed","dlqId":%q}`, began+60_000, common("RUN_FAILED", run), labels, held.DeadLetterID)},
		{"RUN_SUCCESS", fmt.Sprintf(`{"time":%d,%s,"workflowRunResponse":%q}`,
			other.CreatedAt.UnixMilli(), common("RUN_SUCCESS", other), posthaste.Redacted([]byte("done")))},
	}
	for _, test := range tests {
		t.Run(test.state, func(t *testing.T) {
			page, err := w.log.Events(t.Context(), "ann", parse(t, "state="+test.state))
			if err != nil || len(page.Events) != 1 || page.More {
				t.Fatalf("%d events, more %v, %v", len(page.Events), page.More, err)
			}
			checkJSON(t, page.Events[0], test.want)
		})
	}
	t.Run("trimmed", func(t *testing.T) {
		page, err := w.log.Events(t.Context(), "ann", parse(t, "trimBody=1&state=STEP_RETRY"))
		if err != nil || len(page.Events) != 1 || page.Events[0].ResponseBody != "n" {
			t.Errorf("events %+v, %v", page.Events, err)
		}
	})
}

// What happens to a run that retention has removed is of no interest any more.
func TestEventsOfForgottenRuns(t *testing.T) {
	w := newWorld(t)
	w.start("wfr_1")
	log := runlog.New(runlog.Options{Store: forgetful{brokenStore{w.store, ""}}})
	events, err := log.Events(t.Context(), "ann", parse(t, ""))
	runs, runsErr := log.Runs(t.Context(), "ann", parse(t, ""))
	if err != nil || runsErr != nil || len(events.Events)+len(runs.Runs) > 0 {
		t.Errorf("%d events, %v; %d runs, %v", len(events.Events), err, len(runs.Runs), runsErr)
	}
}
