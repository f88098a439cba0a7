package runlog_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/runlog"
	"posthaste/internal/store"
)

// TestRunsInPagesBoundedInBytes has runs whose steps are large: a page ends before it has
// many, unless their bodies are left out.
func TestRunsInPagesBoundedInBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing happens at the same time, and much is large")
	}
	w := newWorld(t)
	var want []string
	for i := range 10 {
		run := w.start(fmt.Sprint("wfr_", i))
		w.append(run, posthaste.CallStep, fmt.Sprintf(`{"stepId":1,"stepName":"large","stepType":"Run","out":%q}`, strings.Repeat("x", 1<<20)))
		want = append(want, run.ID)
	}
	newest := slices.Clone(want)
	slices.Reverse(newest)
	for _, test := range []struct {
		name, params string
		want         []string
		pages        int
	}{
		{"latest first", "", newest, 3},
		{"oldest first", "order=earliestFirst", want, 3},
		{"without bodies", "trimBody=0", newest, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, pages := w.allRuns(test.params)
			if diff := cmp.Diff(test.want, got); diff != "" || pages != test.pages {
				t.Errorf("%d pages, want %d; runs (-want +got):\n%s", pages, test.pages, diff)
			}
		})
	}
}

// Contract, workflows 6.3: newest first, ten to a page, and no cursor on the last.
func TestRunsInPages(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 20 {
		want = append(want, w.start(fmt.Sprint("wfr_", i)).ID)
	}
	newest := slices.Clone(want)
	slices.Reverse(newest)
	tests := []struct {
		name, params string
		want         []string
		pages        int
	}{
		{"by default", "", newest, 2},
		{"more than the most", "count=100", newest, 2},
		{"less", "count=7", newest, 3},
		{"oldest first", "order=earliestFirst&count=4", want, 5},
		{"all that match on one page", "workflowRunId=wfr_3,wfr_4&count=2", []string{"wfr_4", "wfr_3"}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, pages := w.allRuns(test.params)
			if diff := cmp.Diff(test.want, got); diff != "" || pages != test.pages {
				t.Errorf("%d pages, want %d; runs differ (-want +got):\n%s", pages, test.pages, diff)
			}
		})
	}
	t.Run("runs that begin meanwhile", func(t *testing.T) {
		page := w.runs("count=10")
		w.start("wfr_late")
		rest := w.runs("cursor=" + wire.Cursor(page.Next))
		if len(rest.Runs) != 10 || rest.Runs[0].ID != "wfr_9" || rest.More {
			t.Errorf("%d runs, more %v", len(rest.Runs), rest.More)
		}
	})
}

// Contract, workflows 6.3 and D 45 and D 49: the filters of the log of runs.
func TestRunsFilters(t *testing.T) {
	w := newWorld(t)
	again := w.start("again")
	w.append(again, posthaste.CallStep, first)
	w.deliver()
	w.end(again, posthaste.RunSuccess)
	w.start("again", func(r *posthaste.Run) { r.Labels = []string{"x", "y"} })
	asleep := w.start("asleep", func(r *posthaste.Run) { r.CallerIP, r.Labels = "10.0.0.1", []string{"y"} })
	w.append(asleep, posthaste.CallStep, sleep, func(m *posthaste.Message) { m.NotBefore = w.now.Add(time.Hour) })
	w.deliver()
	other := w.start("other", func(r *posthaste.Run) {
		r.URL, r.FlowControl = "https://other.example:8080/a,b?c=d", posthaste.FlowControl{Key: "k"}
	})
	w.deliver()
	w.start("retried")
	w.retry(500)
	if _, err := w.store.Accept(t.Context(), w.now, []store.Submission{{Messages: []*posthaste.Message{
		{ID: messageID(1), User: "ann", URL: "https://x.example", CreatedAt: w.now, NotBefore: w.now},
	}}}); err != nil {
		t.Fatal(err)
	}
	ms := func(run *posthaste.Run) int64 { return run.CreatedAt.UnixMilli() }
	all := []string{"retried", "other", "asleep", "again", "again"}
	tests := []struct {
		name, params string
		want         []string
	}{
		{"nothing given", "", all},
		{"empty values", "state=&workflowUrl=&label=&workflowRunId=&messageId=&workflowRuns=&fromDate=&trimBody=", all},
		{"without effect", "api=llm", all},
		{"url", "workflowUrl=https://app.example/wf", []string{"retried", "asleep", "again", "again"}},
		{"url with a comma", "workflowUrl=https://other.example:8080/a,b?c%3Dd", []string{"other"}},
		{"two urls", "workflowUrl=https://app.example/wf&workflowUrl=https://other.example:8080/a,b?c%3Dd", all},
		{"part of a url", "workflowUrl=https://app.example/", nil},
		{"id, which was used again", "workflowRunId=again", []string{"again", "again"}},
		{"prefix of an id", "workflowRunId=agai", nil},
		{"id and creation", fmt.Sprintf("workflowRunId=again&workflowCreatedAt=%d", ms(again)), []string{"again"}},
		{"creation", fmt.Sprintf("workflowCreatedAt=%d,%d", ms(other), ms(asleep)), []string{"other", "asleep"}},
		{"creation of none", "workflowCreatedAt=1", nil},
		{"named", fmt.Sprintf("workflowRuns=again@%d,other@%d", ms(again), ms(other)), []string{"other", "again"}},
		{"named, other filters ignored", fmt.Sprintf("workflowRuns=other@%d&state=x&label=none&toDate=1", ms(other)), []string{"other"}},
		{"named with the time of another", fmt.Sprintf("workflowRuns=again@%d,asleep@%d", ms(asleep), ms(again)), nil},
		{"label", "label=y", []string{"asleep", "again"}},
		{"labels", "label=x&label=z", []string{"again"}},
		{"caller", "callerIp=10.0.0.1", []string{"asleep"}},
		{"flow key", "flowControlKey=k", []string{"other"}},
		{"host", "host=OTHER.example", []string{"other"}},
		{"path", "path=/wf&count=2", []string{"retried", "asleep", "again", "again"}},
		{"message", "messageId=" + asleep.FirstID.String(), []string{"asleep"}},
		{"message of no run", "messageId=" + messageID(1).String(), nil},
		{"unknown message", "messageId=" + messageID(2).String(), nil},
		{"no message id", "messageId=wfr_1", nil},
		{"from", fmt.Sprintf("fromDate=%d", ms(other)), []string{"retried", "other"}},
		{"until", fmt.Sprintf("toDate=%d", ms(asleep)), []string{"asleep", "again", "again"}},
		{"an empty range", fmt.Sprintf("fromDate=%d&toDate=%d", ms(other), ms(asleep)), nil},
		{"state of the run", "state=run_success", []string{"again"}},
		{"states of the run", "state=RUN_SUCCESS,RUN_FAILED&state=RUN_STARTED", all},
		{"state of a step", "state=STEP_PROGRESS", []string{"asleep"}},
		{"state of the next step", "state=STEP_RETRY", []string{"retried"}},
		{"states of either", "state=STEP_RETRY,RUN_SUCCESS", []string{"retried", "again"}},
		{"state of every first step", "state=STEP_SUCCESS", all},
		{"no such state", "state=STEP_FAILED", nil},
		{"together", "label=y&state=RUN_STARTED&callerIp=10.0.0.1", []string{"asleep"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := w.allRuns(test.params)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Runs(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

// A page is the result of bounded work: when few runs match it may be short, and its
// cursor leads on.
func TestRunsWorkIsBounded(t *testing.T) {
	w := newWorld(t)
	w.start("needle")
	w.retry(500)
	for i := range 30 {
		w.start(fmt.Sprint("hay_", i))
		w.deliver()
	}
	page := w.runs("state=STEP_RETRY&count=2")
	if len(page.Runs) != 0 || !page.More {
		t.Fatalf("%d runs, more %v", len(page.Runs), page.More)
	}
	if got, _ := w.allRuns("state=STEP_RETRY&count=2"); !slices.Equal(got, []string{"needle"}) {
		t.Errorf("runs %v", got)
	}
}

// Runs of others do not exist.
func TestOthersSeeNothing(t *testing.T) {
	w := newWorld(t)
	run := w.start("wfr_1")
	for _, params := range []string{"", "messageId=" + run.FirstID.String(), "workflowRunId=wfr_1"} {
		runs, err := w.log.Runs(t.Context(), "bob", parse(t, params))
		events, eventsErr := w.log.Events(t.Context(), "bob", parse(t, params))
		if len(runs.Runs)+len(events.Events) > 0 || err != nil || eventsErr != nil {
			t.Errorf("%q: %d runs, %d events, %v, %v", params, len(runs.Runs), len(events.Events), err, eventsErr)
		}
	}
}

// What is shown of a run is gathered from all that the store has of it.
func TestGathered(t *testing.T) {
	const init = "sequential: init Initial STEP_SUCCESS\n"
	tests := []struct {
		name string
		live func(w *world, run *posthaste.Run)
		want string
	}{
		{"failed attempts, oldest first", func(w *world, _ *posthaste.Run) {
			for _, status := range []int{500, 0, 502} {
				w.retry(status)
				w.after(time.Minute)
			}
		}, "RUN_STARTED\n" + init + "next: STEP_RETRY 500 503 502\n"},
		{"attempts that failed before one that did not are of no interest", func(w *world, run *posthaste.Run) {
			w.retry(500)
			w.after(time.Minute)
			w.deliver()
			w.append(run, posthaste.CallStep, first)
		}, "RUN_STARTED\n" + init + "sequential: 1 first Run STEP_SUCCESS\nnext: STEP_PROGRESS\n"},
		{"the first entry, delivered once more (2.4)", func(w *world, run *posthaste.Run) {
			w.deliver()
			m := w.messageOf(run, posthaste.CallStep)
			m.Body = []byte("payload of wfr_1")
			w.transact(func(tx store.RunTx) error { return tx.Accept(m) })
			w.retry(500)
		}, "RUN_STARTED\n" + init + "next: STEP_RETRY 500 next\n"},
		{"the first entry, delivered once more, failed the run", func(w *world, run *posthaste.Run) {
			w.deliver()
			m := w.messageOf(run, posthaste.CallStep)
			w.transact(func(tx store.RunTx) error { return tx.Accept(m) })
			w.append(run, posthaste.CallStep, first)
			w.settle(func(claim store.Claim) *store.Settlement {
				if claim.Message.ID != m.ID {
					return nil
				}
				failed := store.Failed(claim, failure(500))
				return &failed
			})
			w.change(run, func(tx store.RunTx, run *posthaste.Run) {
				run.State, run.CompletedAt, run.FailedID, run.FailedStatus = posthaste.RunFailed, tx.Now(), m.ID, 500
			})
		}, "RUN_FAILED\n" + init + "sequential: 1 first Run STEP_SUCCESS\nnext: STEP_FAILED 500\n"},
		{"the first entry, delivered once more before its id was used again", func(w *world, run *posthaste.Run) {
			w.deliver()
			m := w.messageOf(run, posthaste.CallStep)
			w.transact(func(tx store.RunTx) error { return tx.Accept(m) })
			w.retry(500)
			w.start(run.ID)
		}, "RUN_STARTED\n" + init + "next: STEP_RETRY 500 next\n"},
		{"a failure callback is no delivery of the first entry", func(w *world, run *posthaste.Run) {
			w.deliver()
			m := w.messageOf(run, posthaste.CallFailure)
			w.transact(func(tx store.RunTx) error { return tx.Accept(m) })
		}, "RUN_STARTED\n" + init},
		{"what it waits for", func(w *world, run *posthaste.Run) {
			w.deliver()
			w.transact(func(tx store.RunTx) error {
				tx.Wait(&posthaste.Waiter{
					Run: run.RunRef, MessageID: w.messageID(), After: 1, Step: []byte(waits), Topic: posthaste.EventTopic("go"),
				})
				return nil
			})
		}, "RUN_STARTED\n" + init + "sequential: 1 hold Wait STEP_PROGRESS\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			run := w.start("wfr_1")
			test.live(w, run)
			if diff := cmp.Diff(test.want, w.outlineOf(run.RunRef)); diff != "" {
				t.Errorf("run differs (-want +got):\n%s", diff)
			}
		})
	}
}

// A run shows what it gave to the run that it invoked, while that goes on and, if the
// step names it, afterwards.
func TestInvokedRunIsShown(t *testing.T) {
	w := newWorld(t)
	parent := w.start("parent")
	earlier := w.start("child")
	w.end(earlier, posthaste.RunCancelled)
	invoked := w.start("child", func(r *posthaste.Run) { r.Header = http.Header{"X-Child": {"v"}} })
	w.after(-time.Second)
	w.start("bystander") // of the same moment
	w.transact(func(tx store.RunTx) error {
		tx.Wait(&posthaste.Waiter{
			Run: parent.RunRef, MessageID: invoked.FirstID, After: 1, Step: []byte(invoke),
			Topic: posthaste.RunTopic(invoked.RunRef), Invoked: &invoked.RunRef,
		})
		return nil
	})
	check := func(t *testing.T, state posthaste.StepState) {
		t.Helper()
		step := w.runs("workflowRunId=parent").Runs[0].Groups[1].Steps[0]
		if step.State != state || step.InvokedID != "child" || step.InvokedCreatedAt != invoked.CreatedAt.UnixMilli() ||
			step.InvokedBody != "payload of child" || step.InvokedHeader.Get("X-Child") != "v" {
			t.Errorf("step %+v", step)
		}
	}
	t.Run("while it goes on", func(t *testing.T) { check(t, posthaste.StepProgress) })
	w.transact(func(tx store.RunTx) error {
		waiters, err := tx.RunWaiters(parent.Position)
		if err == nil {
			tx.EndWait(waiters[0])
		}
		return err
	})
	const ended = `{"stepId":%d,"stepType":"Invoke","invokedWorkflowRunId":"child","invokedWorkflowCreatedAt":%d}`
	w.append(parent, posthaste.CallStep, fmt.Sprintf(ended, 1, invoked.CreatedAt.UnixMilli()))
	w.append(parent, posthaste.CallStep, fmt.Sprintf(ended, 2, invoked.CreatedAt.UnixMilli()-1))
	t.Run("after it ended", func(t *testing.T) { check(t, posthaste.StepSuccess) })
	t.Run("one that is forgotten", func(t *testing.T) {
		step := w.runs("workflowRunId=parent").Runs[0].Groups[2].Steps[0]
		if step.InvokedID != "child" || step.InvokedBody != "" {
			t.Errorf("step %+v", step)
		}
	})
}

// brokenStore fails in one method.
type brokenStore struct {
	runlog.Store
	broken string
}

var errBroken = errors.New("disk on fire")

func (s brokenStore) fails(method string) error {
	if s.broken == method {
		return errBroken
	}
	return nil
}

func (s brokenStore) Runs(ctx context.Context, user string, query store.RunQuery) (store.RunPage, error) {
	if err := s.fails("Runs"); err != nil {
		return store.RunPage{}, err
	}
	return s.Store.Runs(ctx, user, query)
}

func (s brokenStore) Run(ctx context.Context, user string, at posthaste.Position) (*posthaste.Run, error) {
	if err := s.fails("Run"); err != nil {
		return nil, err
	}
	return s.Store.Run(ctx, user, at)
}

func (s brokenStore) RunEntries(ctx context.Context, user string, at posthaste.Position, from, count int) ([]posthaste.RunEntry, error) {
	if err := s.fails("RunEntries"); err != nil {
		return nil, err
	}
	return s.Store.RunEntries(ctx, user, at, from, count)
}

func (s brokenStore) RunWaiters(ctx context.Context, user string, at posthaste.Position) ([]*posthaste.Waiter, error) {
	if err := s.fails("RunWaiters"); err != nil {
		return nil, err
	}
	return s.Store.RunWaiters(ctx, user, at)
}

func (s brokenStore) Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error) {
	if err := s.fails("Message"); err != nil {
		return store.Status{}, err
	}
	return s.Store.Message(ctx, user, id)
}

func (s brokenStore) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	if err := s.fails("Events"); err != nil {
		return 0, false, err
	}
	return s.Store.Events(ctx, user, query, visit)
}

// An error of the store is passed on, not shown as a run that lacks something.
func TestStoreErrors(t *testing.T) {
	w := newWorld(t)
	w.start("wfr_1")
	w.retry(500)
	runs := []string{"Runs", "RunEntries", "RunWaiters", "Message", "Events"}
	for _, method := range runs {
		t.Run("runs "+method, func(t *testing.T) {
			log := runlog.New(runlog.Options{Store: brokenStore{w.store, method}})
			if _, err := log.Runs(t.Context(), "ann", parse(t, "")); !errors.Is(err, errBroken) {
				t.Errorf("error %v", err)
			}
		})
	}
	for _, method := range []string{"Run", "Events"} {
		t.Run("events "+method, func(t *testing.T) {
			log := runlog.New(runlog.Options{Store: brokenStore{w.store, method}})
			if _, err := log.Events(t.Context(), "ann", parse(t, "")); !errors.Is(err, errBroken) {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("message", func(t *testing.T) {
		log := runlog.New(runlog.Options{Store: brokenStore{w.store, "Message"}})
		if _, err := log.Runs(t.Context(), "ann", parse(t, "messageId="+messageID(1).String())); !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
	})
}

// forgetful has no lists, and no runs but those that are listed.
type forgetful struct{ brokenStore }

func (forgetful) Run(context.Context, string, posthaste.Position) (*posthaste.Run, error) {
	return nil, store.ErrNotFound
}

func (forgetful) RunEntries(context.Context, string, posthaste.Position, int, int) ([]posthaste.RunEntry, error) {
	return nil, nil
}

// A run that has failed tells why, from the first moment on: an SDK that waits for
// its end reads it then (contract, workflows 6.3).
func TestErrorsAreThereAtTheEnd(t *testing.T) {
	const init = "sequential: init Initial STEP_SUCCESS\n"
	tests := []struct {
		name string
		live func(w *world, run *posthaste.Run)
		want string
	}{
		{"failed for good", func(w *world, run *posthaste.Run) { w.fail(run, 500) }, "next: STEP_FAILED 503 500\n"},
		{"failed, and tried again later", func(w *world, _ *posthaste.Run) { w.retry(500) }, "next: STEP_RETRY 503 500 next\n"},
		{"nothing new", func(*world, *posthaste.Run) {}, "next: STEP_RETRY 503\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			run := w.start("wfr_1")
			w.retry(503)
			w.after(time.Minute)
			test.live(w, run)
			if diff := cmp.Diff(init+test.want, outline(w.runs("").Runs[0].Groups)); diff != "" {
				t.Errorf("run differs (-want +got):\n%s", diff)
			}
		})
	}
}
