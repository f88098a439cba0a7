package workflow_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/workflow"
)

// configured gives a trigger all that deliveries can inherit.
func configured(item *workflow.Item) {
	retries := 7
	item.Retries, item.RetryDelay, item.Timeout = &retries, "2000", time.Minute
	item.FlowControl = posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 9, Rate: 8}}
	item.Labels = []string{"l"}
	item.Header.Set("X-User", "trigger")
	item.Header.Set("X-Other", "trigger")
}

// TestInheritance proves what a delivery to a workflow has of the trigger of its run,
// and of itself (contract, workflows 2.3 and D 11).
func TestInheritance(t *testing.T) {
	one := 1
	own := posthaste.Settings{
		Retries: &one, RetryDelay: "3000", Timeout: time.Second,
		FlowControl: posthaste.FlowControl{Key: "own", FlowLimit: posthaste.FlowLimit{Rate: 1}},
		Header:      http.Header{"X-User": {"step"}},
	}
	type inherited struct {
		Retries     int
		RetryDelay  string
		Timeout     time.Duration
		FlowControl posthaste.FlowControl
		Label       string
		User, Other string
	}
	trigger := inherited{7, "2000", time.Minute, posthaste.FlowControl{Key: "k", FlowLimit: posthaste.FlowLimit{Parallelism: 9, Rate: 8}}, "l", "trigger", "trigger"}
	step := inherited{1, "3000", time.Second, own.FlowControl, "l", "step", ""}
	both := step
	both.Other = "trigger"
	for name, c := range map[string]struct {
		sdk  sdk
		own  posthaste.Settings
		want inherited
	}{
		"everything from the trigger": {sdkTypeScript, posthaste.Settings{Header: http.Header{}}, trigger},
		"its own wins":                {sdkTypeScript, own, both},
		"no feature, its own":         {sdkPython, own, step},
		"no feature, nothing":         {sdkPython, posthaste.Settings{}, inherited{Retries: 3, Label: "l"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{sdk: c.sdk}, func(w *world) {
				w.replaysNothing()
				w.trigger("wf", "r", configured)
				w.pass(time.Second)
				w.submit(workflow.Item{
					RunID: "r", WorkflowURL: site + "wf", Features: c.sdk.features,
					Publication: engine.Publication{Destination: site + "wf", Settings: c.own, Body: []byte(`{"stepId":1,"stepName":"a","stepType":"Run"}`)},
				})
				w.pass(time.Second)
				m := w.visits[1].message
				got := inherited{
					m.MaxRetries(), m.RetryDelay, m.Timeout, m.FlowControl,
					m.Header.Get("Upstash-Label"), m.Header.Get("X-User"), m.Header.Get("X-Other"),
				}
				if diff := gocmp.Diff(c.want, got); diff != "" {
					t.Errorf("delivered (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestEveryDeliveryInherits proves that deliveries of all kinds to the workflow have what
// the trigger was given, and that what goes elsewhere has nothing of it (contract,
// workflows 2.3).
func TestEveryDeliveryInherits(t *testing.T) {
	flows := map[string]flow{
		"wf": {
			{run("a"), sleep("b", time.Second)},
			{call("c", "http://third/ok", 0)},
			{wait("d", "e", time.Minute)},
			{wait("f", "e", time.Second)},
			{invoke("g", site+"child", "")},
		},
		"child": {},
	}
	inWorld(t, setup{flows: flows}, func(w *world) {
		w.trigger("wf", "r", configured)
		w.at(10 * time.Second)
		w.notify("r", "e", "news")
		w.pass(time.Minute)
		w.wantSuccess("r", "<a> slept 200answer 200 news timeout []")
		if len(w.visits) != 12 {
			t.Errorf("%d requests, want 12", len(w.visits))
		}
		for _, v := range w.visits {
			m := v.message
			inherits := m.Header.Get("X-User") == "trigger" && m.MaxRetries() == 7 && m.RetryDelay == "2000" &&
				m.FlowControl.Key == "k" && m.Header.Get("Upstash-Label") == "l"
			if inherits != (v.path == "wf") {
				t.Errorf("%s inherits: %t; it has %+v", v, inherits, m.Settings)
			}
		}
	})
}

// TestCallIsRedacted proves that what is not shown of a run is not shown of a call that it
// makes, nor of the answer, whose body tells the call (contract, workflows 8.4).
func TestCallIsRedacted(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{call("a", "http://third/ok", 0)}}}}, func(w *world) {
		hidden := posthaste.Redaction{Headers: []string{"X-Question"}}
		w.trigger("wf", "r", func(item *workflow.Item) { item.Redact = hidden })
		w.pass(time.Minute)
		asked, told := w.visits[1].message.Redact, w.visits[2].message.Redact
		if diff := gocmp.Diff(hidden, asked); diff != "" {
			t.Errorf("call (-want +got):\n%s", diff)
		}
		if !told.Body || !slices.Contains(told.Headers, "X-Question") {
			t.Errorf("answer of the call: %+v", told)
		}
	})
}

// Contract, workflows 2.5 and 4.5: the headers of a step are checked with each
// delivery, these are those of a call and of its answer.
func TestCallHeaders(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{call("a", "http://third/ok", 0)}}}}, func(w *world) {
		w.trigger("wf", "r", configured)
		w.pass(time.Minute)
		asked, told := w.visits[1].message, w.visits[2].message
		want := http.Header{"Content-Type": {"text/plain"}, "X-Question": {"1"}}
		if diff := gocmp.Diff(want, asked.Header); diff != "" || asked.Method != http.MethodPatch || string(asked.Body) != "question" {
			t.Errorf("call: %s %q, headers (-want +got):\n%s", asked.Method, asked.Body, diff)
		}
		want = http.Header{
			"Content-Type":                 {"application/json"},
			"X-User":                       {"trigger"},
			"X-Other":                      {"trigger"},
			"Upstash-Label":                {"l"},
			"Upstash-Workflow-Callback":    {"true"},
			"Upstash-Workflow-Stepid":      {"1"},
			"Upstash-Workflow-Stepname":    {"a"},
			"Upstash-Workflow-Steptype":    {"Call"},
			"Upstash-Workflow-Concurrent":  {"1"},
			"Upstash-Workflow-Contenttype": {"text/plain"},
			"Upstash-Workflow-Runid":       {"r"},
			"Upstash-Workflow-Init":        {"false"},
			"Upstash-Workflow-Url":         {site + "wf"},
			"Upstash-Workflow-Calltype":    {"fromCallback"},
			"Upstash-Workflow-Createdat":   {fmt.Sprint(w.run("r").CreatedAt.UnixMilli())},
		}
		if diff := gocmp.Diff(want, told.Header); diff != "" || told.Verb() != http.MethodPost {
			t.Errorf("answer: %s, headers (-want +got):\n%s", told.Verb(), diff)
		}
	})
}

// Contract, workflows 2.4.
func TestUnknownSDK(t *testing.T) {
	unknown := func(item *workflow.Item) {
		item.Features = (item.Features | posthaste.FeatureUnknownSDK) &^ posthaste.FeatureDetectTrigger
		item.FetchingSDK = false
	}
	flows := map[string]flow{"wf": {{run("a")}, {run("b")}}}
	begin := func(t *testing.T, fault func(v visit) fault, scenario func(w *world)) {
		inWorld(t, setup{flows: flows, fault: fault}, scenario)
	}
	t.Run("asked once", func(t *testing.T) {
		begin(t, nil, func(w *world) {
			w.trigger("wf", "r", configured, unknown)
			w.pass(time.Minute)
			w.wantVisits("0 wf unknown", "1 wf start", "2 wf a", "3 wf b")
			w.wantList("r", "start", "a", "b")
			w.wantSuccess("r", "<a> <b>")
			for _, v := range w.visits {
				if m := v.message; m.MaxRetries() != 7 || m.FlowControl.Key != "k" || m.Header.Get("X-User") != "trigger" {
					t.Errorf("%s has %+v, want what the trigger was given", v, m.Settings)
				}
			}
			if run := w.run("r"); run.FailureCallback == nil || !run.LazySDK || !run.Features.Has(posthaste.FeatureDetectTrigger) {
				t.Errorf("run %+v, want the features of its SDK and the failure callback of its trigger", run)
			}
		})
	})
	t.Run("asked twice", func(t *testing.T) {
		begin(t, func(v visit) fault {
			if v.what == "unknown" {
				return twice
			}
			return noFault
		}, func(w *world) {
			w.trigger("wf", "r", unknown)
			w.pass(time.Minute)
			w.wantVisits("0 wf unknown", "1 wf start", "2 wf a", "3 wf b")
		})
	})
	t.Run("answer lost", func(t *testing.T) {
		begin(t, func(v visit) fault {
			if v.what == "unknown" {
				return loseAnswer
			}
			return noFault
		}, func(w *world) {
			w.trigger("wf", "r", unknown, retries(0))
			w.pass(time.Minute)
			w.wantVisits("0 wf unknown", "1 wf start", "2 wf a", "3 wf b")
			w.wantSuccess("r", "<a> <b>")
		})
	})
	t.Run("cancelled while the new delivery waits", func(t *testing.T) {
		begin(t, func(v visit) fault {
			if v.what == "start" {
				return refuse
			}
			return noFault
		}, func(w *world) {
			w.trigger("wf", "r", unknown, retries(3))
			w.at(500 * time.Millisecond)
			if err := w.Cancel(w.t.Context(), user, workflow.RunID{ID: "r"}); err != nil {
				t.Fatal(err)
			}
			w.wantState("r", posthaste.RunCancelled)
			if status, err := w.store.Message(w.t.Context(), user, w.run("r").FirstID); err != nil || status.State != posthaste.StateCancelled {
				t.Errorf("the first message is %s, %v, want CANCELLED", status.State, err)
			}
		})
	})
	t.Run("the run has ended", func(t *testing.T) {
		begin(t, nil, func(w *world) {
			w.trigger("wf", "r")
			w.pass(time.Second)
			again := sdkTypeScript.trigger(site+"wf", "r", "payload")
			again.BySDK = true
			_, err := w.Submit(w.t.Context(), user, []workflow.Item{again})
			wantCode(t, "trigger by an SDK", err, posthaste.CodeEnded)
		})
	})
}

// Contract, workflows 3.3 and D 24: what an endpoint says twice counts once.
func TestRepetitions(t *testing.T) {
	all := flow{
		{run("a")}, {sleep("b", time.Second)}, {call("c", "http://third/ok", 0)}, {wait("d", "e", time.Minute)},
		{invoke("f", site+"child", "")}, {run("g"), call("h", "http://third/ok", 0), wait("i", "e", 5*time.Second)},
	}
	const result = "<a> slept 200answer 200 news [<x>] <g> 200answer 200 timeout"
	for name, c := range map[string]struct {
		fault  func(v visit) fault
		visits int
	}{
		"nothing goes wrong": {nil, 18},
		"each request comes twice": {func(v visit) fault {
			if v.what == "call" { // it is not for the server to know
				return noFault
			}
			return twice
		}, 18},
		"each first answer is lost": {func(v visit) fault {
			if v.retried == 0 && v.what != "call" {
				return loseAnswer
			}
			return noFault
		}, 31},
	} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{"wf": all, "child": {{run("x")}}}
			inWorld(t, setup{flows: flows, fault: c.fault}, func(w *world) {
				w.trigger("wf", "r", retries(1))
				w.at(30 * time.Second)
				w.notify("r", "e", "news")
				w.pass(2 * time.Minute)
				w.wantSuccess("r", result)
				if got := len(w.visits); got != c.visits {
					t.Errorf("%d requests, want %d: %v", got, c.visits, w.visits)
				}
				calls := 0
				for _, v := range w.visits {
					if v.what == "call" {
						calls++
					}
				}
				if runs := w.runs(); calls != 2 || len(runs) != 2 {
					t.Errorf("%d calls and %d runs, want 2 and 2", calls, len(runs))
				}
			})
		})
	}
	t.Run("the answers tell", func(t *testing.T) {
		inWorld(t, setup{}, func(w *world) {
			w.replaysNothing()
			first := w.trigger("wf", "r")
			again := w.trigger("wf", "r")
			if again.MessageID != first.MessageID || !again.Deduplicated || first.Deduplicated || again.Run != first.Run {
				t.Errorf("triggered %+v and again %+v", first, again)
			}
			e := &execution{world: w, run: workflow.RunID{ID: "r"}, url: site + "wf"}
			items := []workflow.Item{
				e.item(run("a").result(1, 1)),
				e.item(run("b").plan(2, 2)),
				e.call(call("c", "http://third/ok", 0), 3, 1),
				e.item(run("a").result(1, 1)),
			}
			receipts := w.submit(items...)
			if !receipts[3].Deduplicated || receipts[3].MessageID != receipts[0].MessageID {
				t.Errorf("within a batch: %+v and again %+v", receipts[0], receipts[3])
			}
			for i, r := range w.submit(items[:3]...) {
				if !r.Deduplicated || r.MessageID != receipts[i].MessageID || receipts[i].Deduplicated {
					t.Errorf("item %d: %+v and again %+v", i, receipts[i], r)
				}
			}
		})
	})
}

func (w *world) submit(items ...workflow.Item) []workflow.Receipt {
	w.t.Helper()
	receipts, err := w.Submit(w.t.Context(), user, items)
	if err != nil {
		w.t.Fatal(err)
	}
	return receipts
}

// Contract, workflows 4, D 18 and D 57: a batch with an item that cannot be taken is not
// taken at all.
func TestSubmitIsAllOrNothing(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"ended": {}}}, func(w *world) {
		w.trigger("ended", "over")
		w.pass(time.Second)
		w.replaysNothing()
		w.trigger("wf", "r")
		of := func(id string, at time.Time) workflow.Item {
			e := &execution{world: w, run: workflow.RunID{ID: id}, url: site + "wf"}
			item := e.item(run("a").result(1, 1))
			item.CreatedAt = at
			return item
		}
		invokesItself := sdkTypeScript.trigger(site+"wf", "r", "")
		invokesItself.Invocation = &workflow.Invocation{Invoker: workflow.RunID{ID: "r"}, Step: []byte(`{"stepId":1,"stepType":"Invoke"}`)}
		for name, bad := range map[string]workflow.Item{
			"unknown run":          of("unknown", time.Time{}),
			"ended run":            of("over", time.Time{}),
			"an earlier run":       of("r", w.run("r").CreatedAt.Add(-time.Millisecond)),
			"too many invoke":      {Init: true, InvokeDepth: 101},
			"a run invokes itself": invokesItself,
		} {
			_, err := w.Submit(w.t.Context(), user, []workflow.Item{of("r", w.run("r").CreatedAt), bad})
			want := posthaste.CodeEnded
			if bad.Init {
				want = posthaste.CodeLimit
			}
			wantCode(t, name, err, want)
			if refused, ok := err.(*workflow.Refused); !ok || refused.Index != 1 {
				t.Errorf("%s: %#v, want the second item to be refused", name, err)
			}
		}
		w.wantList("r", "start")
		w.submit(of("r", w.run("r").CreatedAt))
		w.wantList("r", "start", "a")
	})
}

// Contract, workflows 3.4: a list that is too large is mustFetch by those that can.
func TestLazyFetch(t *testing.T) {
	large := strings.Repeat("x", 3000)
	flows := map[string]flow{
		"wf": {{run("a")}, {call("b", "http://third/ok", 0), run("c"), wait("d", "e", time.Second)}, {run("f")}},
	}
	for name, c := range map[string]struct {
		sdk       sdk
		payload   string
		mustFetch int
	}{
		"small":              {sdkTypeScript, "x", 0},
		"large":              {sdkTypeScript, large, 9},
		"an SDK that cannot": {sdkPython, large, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: flows, sdk: c.sdk, options: workflow.Options{LazyThreshold: 2000}}, func(w *world) {
				w.submit(c.sdk.trigger(site+"wf", "r", c.payload))
				w.pass(time.Minute)
				w.wantSuccess("r", "<a> 200answer 200 <c> timeout <f>")
				mustFetch := 0
				for _, v := range w.visits {
					if v.list != nil && len(v.message.Body) == 0 {
						mustFetch++
					}
				}
				if mustFetch != c.mustFetch {
					t.Errorf("%d lists were mustFetch, want %d", mustFetch, c.mustFetch)
				}
			})
		})
	}
	t.Run("failure callback", func(t *testing.T) {
		inWorld(t, setup{flows: map[string]flow{"wf": {throw(489)}}, options: workflow.Options{LazyThreshold: 2000}}, func(w *world) {
			w.submit(sdkTypeScript.trigger(site+"wf", "r", large))
			w.pass(time.Minute)
			if len(w.told["r"]) != 1 {
				t.Errorf("the failure function was told %v", w.told)
			}
		})
	})
	t.Run("a run that is resumed", func(t *testing.T) {
		flows := map[string]flow{"wf": {{run("a")}, {run("b")}, {run("c")}}}
		inWorld(t, setup{flows: flows, options: workflow.Options{LazyThreshold: 2000}}, func(w *world) {
			w.behave["wf c"] = answers(489, 200)
			w.submit(sdkTypeScript.trigger(site+"wf", "r", large))
			w.at(time.Second)
			resumed := w.restart("r", true)
			w.pass(time.Second)
			w.wantVisits("0 wf start", "1 wf a", "2 wf b", "4 wf failure", "1000 wf b", "1001 wf c")
			w.wantSuccess(resumed, "<a> <b> <c>")
		})
	})
	t.Run("a run that has ended", func(t *testing.T) {
		inWorld(t, setup{}, func(w *world) {
			w.replaysNothing()
			w.trigger("wf", "r")
			list, err := w.entries(workflow.RunID{ID: "r"})
			if err != nil {
				t.Errorf("entries of run r: %v", err)
			}
			full := errors.New("no room")
			_, err = w.Entries(w.t.Context(), user, workflow.RunID{ID: "r"}, func(bytes int) error {
				if want := len(list[0].Body); bytes != want {
					t.Errorf("room for %d bytes is asked for, want %d", bytes, want)
				}
				return full
			})
			if err != full {
				t.Errorf("entries without room: %v, want %v", err, full)
			}
			_, err = w.entries(workflow.RunID{ID: "r", CreatedAt: w.start.Add(-time.Hour)})
			wantCode(t, "entries of another run r", err, posthaste.CodeNotFound)
			if err := w.Cancel(w.t.Context(), user, workflow.RunID{ID: "r"}); err != nil {
				t.Fatal(err)
			}
			_, err = w.entries(workflow.RunID{ID: "r"})
			wantCode(t, "entries of a cancelled run", err, posthaste.CodeNotFound)
		})
	})
}

// entries reads the list of a run, for which there is room.
func (w *world) entries(id workflow.RunID) ([]posthaste.RunEntry, error) {
	return w.Entries(w.t.Context(), user, id, func(int) error { return nil })
}

// restart restarts or resumes a failed run and returns the id of the new one.
func (w *world) restart(id string, resume bool) string {
	w.t.Helper()
	letter := w.letter(id)
	if letter == nil {
		w.t.FailNow()
	}
	done, _, err := w.Restart(w.t.Context(), user, workflow.RestartRequest{IDs: []posthaste.DeadLetterID{letter.ID}, Resume: resume})
	if err != nil || len(done.Results) != 1 || done.Results[0].Err != nil {
		w.t.Fatalf("restart run %s: %+v, %v", id, done, err)
	}
	return done.Results[0].Run.ID
}
