package workflow_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// TestAnswers proves what the answers of an endpoint mean for a run of which step b is
// answered with them (contract, workflows 3.5, 5.1 and D 22).
func TestAnswers(t *testing.T) {
	retryAfter := posthaste.Outcome{Error: "429", Response: response(429), RetryAfter: 10 * time.Second, HasRetryAfter: true}
	silent := posthaste.Outcome{Error: "connection reset"}
	tooSlow := posthaste.Outcome{Error: "timeout", TimedOut: true}
	bare489 := posthaste.Outcome{Error: "489", Response: response(489)}
	for name, c := range map[string]struct {
		retries int
		answers []posthaste.Outcome
		visits  []string
		status  int // that the run failed with; 0: it did not
		reason  string
	}{
		"500, no retries": {
			0, []posthaste.Outcome{outcome(500)},
			[]string{"0 wf start", "1 wf a", "3 wf failure"}, 500, "500",
		},
		"500, then 200": {
			2, []posthaste.Outcome{outcome(500), outcome(500), outcome(200)},
			[]string{"0 wf start", "1 wf a", "1003 wf a again", "2005 wf a again", "2006 wf b"}, 0, "",
		},
		"500, retries spent": {
			2, []posthaste.Outcome{outcome(500)},
			[]string{"0 wf start", "1 wf a", "1003 wf a again", "2005 wf a again", "2007 wf failure"}, 500, "500",
		},
		"another one each time": {
			1, []posthaste.Outcome{outcome(500), outcome(404)},
			[]string{"0 wf start", "1 wf a", "1003 wf a again", "1005 wf failure"}, 404, "404",
		},
		"400 of an authentication": {
			1, []posthaste.Outcome{outcome(400)},
			[]string{"0 wf start", "1 wf a", "1003 wf a again", "1005 wf failure"}, 400, "400",
		},
		"489": {
			5, []posthaste.Outcome{outcome(489)},
			[]string{"0 wf start", "1 wf a", "3 wf failure"}, 489, "489",
		},
		"489 without the header": {
			5, []posthaste.Outcome{bare489},
			[]string{"0 wf start", "1 wf a", "3 wf failure"}, 489, "489",
		},
		"429 that says when": {
			1, []posthaste.Outcome{retryAfter, outcome(200)},
			[]string{"0 wf start", "1 wf a", "10003 wf a again", "10004 wf b"}, 0, "",
		},
		"no answer": {
			0, []posthaste.Outcome{silent},
			[]string{"0 wf start", "1 wf a", "3 wf failure"}, 503, "connection reset",
		},
		"no answer in time": {
			0, []posthaste.Outcome{tooSlow},
			[]string{"0 wf start", "1 wf a", "3 wf failure"}, 504, "timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}, {run("b")}}}}, func(w *world) {
				w.behave["wf b"] = outcomes(c.answers...)
				w.trigger("wf", "r", retries(c.retries))
				w.pass(time.Minute)
				w.wantVisits(c.visits...)
				w.wantDone("r", "b", len(c.visits)-2)
				if c.status == 0 {
					w.wantSuccess("r", "<a> <b>")
					w.wantCallback("r", "")
					return
				}
				w.wantFailure("r", c.status, c.reason)
				w.wantCallback("r", posthaste.CallbackSuccess)
			})
		})
	}
}

// outcomes is answers for those that have no status alone.
func outcomes(all ...posthaste.Outcome) func() *posthaste.Outcome {
	n := 0
	return func() *posthaste.Outcome {
		o := all[min(n, len(all)-1)]
		n++
		return &o
	}
}

// TestDetection proves that the first answer tells whether there is a workflow
// (contract, workflows 2.4, 3.5 and D 14).
func TestDetection(t *testing.T) {
	const (
		notAWorkflow = "detected a non-workflow destination for trigger/invoke. make sure you are sending the request to the correct endpoint"
		unknownSDK   = "trigger rest api is only usable with sdk versions after v1.0.0 major version"
	)
	checkSDK := func(item *workflow.Item) { item.Features |= posthaste.FeatureCheckSDK }
	for name, c := range map[string]struct {
		edit   func(*workflow.Item)
		answer http.Header
		reason string // of the failure; "": there is none
	}{
		"no SDK":                      {retries(3), http.Header{}, notAWorkflow},
		"no SDK, not to be detected":  {without(posthaste.FeatureDetectTrigger), http.Header{}, ""},
		"an SDK":                      {retries(3), http.Header{"Upstash-Workflow-Sdk-Version": {"1"}}, ""},
		"triggered by REST, v1":       {checkSDK, http.Header{"Upstash-Workflow-Sdk-Version": {"1"}, "Upstash-Workflow-Sdk": {"v1.0.0"}}, ""},
		"triggered by REST, v12":      {checkSDK, http.Header{"Upstash-Workflow-Sdk-Version": {"1"}, "Upstash-Workflow-Sdk": {"v12.3.4-beta.1"}}, ""},
		"triggered by REST, v0":       {checkSDK, http.Header{"Upstash-Workflow-Sdk-Version": {"1"}, "Upstash-Workflow-Sdk": {"v0.9.0"}}, unknownSDK},
		"triggered by REST, silent":   {checkSDK, http.Header{"Upstash-Workflow-Sdk-Version": {"1"}}, unknownSDK},
		"triggered by REST, nonsense": {checkSDK, http.Header{"Upstash-Workflow-Sdk-Version": {"1"}, "Upstash-Workflow-Sdk": {"vx.1"}}, unknownSDK},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{}, func(w *world) {
				w.override = func(visit) *posthaste.Outcome {
					return &posthaste.Outcome{
						Class:    posthaste.OutcomeDelivered,
						Response: &posthaste.Response{Status: 200, Header: c.answer, Body: []byte("hello")},
					}
				}
				w.trigger("wf", "r", c.edit)
				w.pass(time.Minute)
				if c.reason == "" {
					w.wantVisits("0 wf start")
					w.wantState("r", posthaste.RunStarted)
					return
				}
				w.wantVisits("0 wf start", "2 wf failure")
				w.wantFailure("r", 200, c.reason)
				if letter := w.letter("r"); string(letter.Response.Body) != "hello" {
					t.Errorf("the answer in the DLQ is %q", letter.Response.Body)
				}
			})
		})
	}
	t.Run("no SDK, and an error first", func(t *testing.T) {
		inWorld(t, setup{}, func(w *world) {
			w.override = func(v visit) *posthaste.Outcome {
				o := outcome([]int{500, 200}[min(v.retried, 1)])
				return &o
			}
			w.trigger("wf", "r", retries(1))
			w.pass(time.Minute)
			w.wantVisits("0 wf start", "1002 wf start again", "1004 wf failure")
			w.wantFailure("r", 200, notAWorkflow)
		})
	})
	t.Run("no SDK at a later step", func(t *testing.T) {
		inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}}}}, func(w *world) {
			w.override = func(v visit) *posthaste.Outcome {
				if v.what != "a" {
					return nil
				}
				o := outcome(200)
				return &o
			}
			w.trigger("wf", "r")
			w.pass(time.Minute)
			w.wantVisits("0 wf start", "1 wf a")
			w.wantState("r", posthaste.RunStarted)
		})
	})
}

// Contract, workflows 4.5 and 5.1: who may let a run fail, and what its siblings do
// then.
func TestFailures(t *testing.T) {
	answer := "answer a"
	for name, c := range map[string]struct {
		flow   flow
		fault  func(v visit) fault
		visits []string
		status int
	}{
		"a call that is no answer": {
			flow{{step{name: "a", kind: "Call", url: "http://third/broken", retries: 1}}}, nil,
			[]string{"0 wf start", "1 broken call", "1003 broken call again", "1005 wf failure"}, 500,
		},
		"the answer of a call": {
			flow{{call("a", "http://third/ok", 0)}},
			func(v visit) fault {
				if v.what == answer {
					return refuse
				}
				return noFault
			},
			[]string{"0 wf start", "1 ok call", "3 wf answer a", "1005 wf answer a again", "1007 wf failure"}, 500,
		},
		"a plan, its siblings sleeping and waiting": {
			flow{{run("broken"), sleep("b", 10*time.Second), wait("c", "e", 10*time.Second), invoke("d", site+"slow", "")}}, nil,
			[]string{
				"0 wf start", "1 wf plan broken", "1 wf plan c", "1 wf plan d", "2 slow start",
				"1003 wf plan broken again", "1005 wf failure", "5003 slow z",
			}, 500,
		},
		"the start": {
			flow{throw(500)}, nil,
			[]string{"0 wf start", "1002 wf start again", "1004 wf failure"}, 500,
		},
		"the end": {
			flow{{run("a")}, throw(489)}, nil,
			[]string{"0 wf start", "1 wf a", "3 wf failure"}, 489,
		},
	} {
		t.Run(name, func(t *testing.T) {
			flows := map[string]flow{"wf": c.flow, "slow": {{sleep("z", 5*time.Second)}}}
			inWorld(t, setup{flows: flows, fault: c.fault}, func(w *world) {
				w.behave["broken"], w.behave["wf broken"] = answers(500), answers(500)
				w.trigger("wf", "r", retries(1))
				w.pass(time.Minute)
				w.wantVisits(c.visits...)
				w.wantFailure("r", c.status, fmt.Sprint(c.status))
				w.wantCallback("r", posthaste.CallbackSuccess)
			})
		})
	}
}

// Contract, workflows 5.2.
func TestFailureCallback(t *testing.T) {
	flows := map[string]flow{"wf": {{run("a")}, {run("b")}}}
	inWorld(t, setup{flows: flows}, func(w *world) {
		w.behave["wf b"] = answers(500, 502)
		w.at(time.Second)
		w.trigger("wf", "r", retries(1), func(item *workflow.Item) {
			item.Labels = []string{"one", "two"}
			item.FailureCallback.Settings.Header.Set("X-Own", "1")
		})
		w.pass(time.Minute)
		run, letter := w.run("r"), w.letter("r")
		want := map[string]any{
			"status":            502.0,
			"header":            map[string]any{"Content-Type": []any{"text/plain"}},
			"body":              base64.StdEncoding.EncodeToString([]byte("answer 502")),
			"retried":           1.0,
			"maxRetries":        1.0,
			"dlqId":             letter.ID.String(),
			"sourceMessageId":   run.FailedID.String(),
			"url":               site + "wf",
			"method":            "POST",
			"sourceHeader":      map[string]any{"Content-Type": []any{"application/json"}, "Upstash-Workflow-Sdk-Version": []any{"1"}},
			"sourceBody":        base64.StdEncoding.EncodeToString([]byte("payload")),
			"notBefore":         float64(w.start.Add(1001 * time.Millisecond).UnixMilli()),
			"createdAt":         float64(w.start.Add(1001 * time.Millisecond).UnixMilli()),
			"callerIP":          "192.0.2.2",
			"workflowRunId":     "r",
			"workflowCreatedAt": float64(w.start.Add(time.Second).UnixMilli()),
		}
		if diff := gocmp.Diff([]map[string]any{want}, w.told["r"]); diff != "" {
			t.Errorf("the failure function was told (-want +got):\n%s", diff)
		}
		sent := w.visits[len(w.visits)-1].message
		wantHeader := http.Header{
			"Content-Type":                      {"application/json"},
			"X-Own":                             {"1"},
			"Upstash-Label":                     {"one,two"},
			"Upstash-Workflow-Is-Failure":       {"true"},
			"Upstash-Workflow-Failure-Callback": {"true"},
			"Upstash-Workflow-Runid":            {"r"},
			"Upstash-Workflow-Init":             {"false"},
			"Upstash-Workflow-Url":              {site + "wf"},
			"Upstash-Workflow-Calltype":         {"failureCall"},
			"Upstash-Workflow-Createdat":        {fmt.Sprint(run.CreatedAt.UnixMilli())},
		}
		if diff := gocmp.Diff(wantHeader, sent.Header); diff != "" {
			t.Errorf("headers of the failure callback (-want +got):\n%s", diff)
		}
	})
}

// Contract, workflows 2.3: a message may have a failure callback of its own.
func TestFailureCallbackOfAMessage(t *testing.T) {
	inWorld(t, setup{}, func(w *world) {
		w.override = func(v visit) *posthaste.Outcome {
			o := answered(nil)
			if v.what == "a" {
				o = outcome(489)
			}
			return &o
		}
		w.trigger("wf", "r")
		w.pass(time.Second)
		e := &execution{world: w, run: workflow.RunID{ID: "r"}, url: site + "wf"}
		item := e.item(run("a").result(1, 1))
		item.FailureCallback = failureCallback(site + "own")
		w.submit(item)
		w.pass(time.Minute)
		w.wantVisits("0 wf start", "1000 wf a", "1002 own failure")
		w.wantCallback("r", posthaste.CallbackSuccess)
		if url := w.run("r").Reported.URL; url != site+"own" {
			t.Errorf("the failure callback went to %s", url)
		}
	})
}

// TestFailureCallbackSource proves that without the feature the source is the list that
// was delivered (contract, workflows 5.2).
func TestFailureCallbackSource(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {{run("a")}, throw(489)}}}, func(w *world) {
		w.trigger("wf", "r", func(item *workflow.Item) { item.FailureCallback.Given = nil })
		w.pass(time.Minute)
		source, err := base64.StdEncoding.DecodeString(w.told["r"][0]["sourceBody"].(string))
		if delivered := w.visits[1].message.Body; err != nil || string(source) != string(delivered) {
			t.Errorf("the source is %s, %v, want %s", source, err, delivered)
		}
	})
}

// TestFailureCallbackHidesWhatItsRunHides proves that nobody reads in the log of a
// failure callback, which tells of the run, what must not be read of the run (contract,
// messages 6.7).
func TestFailureCallbackHidesWhatItsRunHides(t *testing.T) {
	inWorld(t, setup{flows: map[string]flow{"wf": {throw(489)}}}, func(w *world) {
		w.trigger("wf", "r", func(item *workflow.Item) {
			item.Settings.Redact = posthaste.Redaction{Headers: []string{"X-Secret"}}
			item.FailureCallback.Settings.Redact = posthaste.Redaction{AllHeaders: true}
		})
		w.pass(time.Minute)
		told := w.visits[len(w.visits)-1].message
		want := posthaste.Redaction{Body: true, AllHeaders: true, Headers: []string{"X-Secret"}}
		if diff := gocmp.Diff(want, told.Redact); diff != "" {
			t.Errorf("redaction of the failure callback (-want +got):\n%s", diff)
		}
	})
}

// TestFailureCallbackStates proves where a failure callback stands after its answers
// (contract, workflows 1.3, 3.5 and 5.2).
func TestFailureCallbackStates(t *testing.T) {
	two, none := 2, 0
	notFound := outcome(200)
	notFound.Response.Header.Set("Upstash-Workflow-Failure-Callback-Notfound", "true")
	for name, c := range map[string]struct {
		retries *int // of the callback; nil: those of the run, which is 1
		answers []posthaste.Outcome
		calls   int
		state   posthaste.CallbackState
	}{
		"success":                {nil, []posthaste.Outcome{outcome(200)}, 1, posthaste.CallbackSuccess},
		"no failure function":    {nil, []posthaste.Outcome{notFound}, 1, posthaste.CallbackSuccess},
		"the second time":        {nil, []posthaste.Outcome{outcome(500), outcome(200)}, 2, posthaste.CallbackSuccess},
		"never, retries of run":  {nil, []posthaste.Outcome{outcome(500)}, 2, posthaste.CallbackFailed},
		"never, its own retries": {&two, []posthaste.Outcome{outcome(500)}, 3, posthaste.CallbackFailed},
		"never, no retries":      {&none, []posthaste.Outcome{outcome(500)}, 1, posthaste.CallbackFailed},
		"not to be retried":      {&two, []posthaste.Outcome{outcome(489)}, 1, posthaste.CallbackFailed},
		"bare 489":               {&two, []posthaste.Outcome{{Error: "489", Response: response(489)}}, 1, posthaste.CallbackFailed},
		"no answer":              {&none, []posthaste.Outcome{outcome(0)}, 1, posthaste.CallbackFailed},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: map[string]flow{"wf": {throw(489)}}}, func(w *world) {
				w.behave["failure wf"] = outcomes(c.answers...)
				w.trigger("wf", "r", retries(1), func(item *workflow.Item) { item.FailureCallback.Settings.Retries = c.retries })
				w.pass(time.Minute)
				w.wantCallback("r", c.state)
				if got := len(w.told["r"]); got != c.calls {
					t.Errorf("the failure function was called %d times, want %d", got, c.calls)
				}
				reported, last := w.run("r").Reported, c.answers[len(c.answers)-1]
				if diff := gocmp.Diff(last.Response, reported.Response); diff != "" {
					t.Errorf("kept answer (-want +got):\n%s", diff)
				}
				if reported.NotFound != (name == "no failure function") {
					t.Errorf("not found: %t", reported.NotFound)
				}
			})
		})
	}
	t.Run("none is known", func(t *testing.T) {
		inWorld(t, setup{flows: map[string]flow{"wf": {throw(489)}}}, func(w *world) {
			w.trigger("wf", "r", func(item *workflow.Item) { item.FailureCallback = nil })
			w.pass(time.Minute)
			w.wantFailure("r", 489, "489")
			w.wantVisits("0 wf start")
			w.wantCallback("r", "")
		})
	})
}

// Contract, workflows 7.5: a failure callback that failed is sent again as it was, and
// one that is on its way can be cancelled.
func TestFailureCallbackAgain(t *testing.T) {
	failed := func(t *testing.T, answers func() *posthaste.Outcome, scenario func(w *world, id posthaste.DeadLetterID)) {
		inWorld(t, setup{flows: map[string]flow{"wf": {throw(489)}}}, func(w *world) {
			w.behave["failure wf"] = answers
			w.trigger("wf", "r", retries(1))
			w.at(500 * time.Millisecond)
			scenario(w, w.letter("r").ID)
		})
	}
	t.Run("retried", func(t *testing.T) {
		failed(t, answers(500, 500, 500, 200), func(w *world, id posthaste.DeadLetterID) {
			_, err := w.RetryFailureCallback(w.t.Context(), user, id)
			wantCode(t, "retry in progress", err, posthaste.CodeInvalid)
			w.at(time.Minute)
			w.wantCallback("r", posthaste.CallbackFailed)
			of, err := w.RetryFailureCallback(w.t.Context(), user, id)
			if err != nil || of.ID != "r" || !of.CreatedAt.Equal(w.run("r").CreatedAt) {
				t.Errorf("retry: %+v, %v", of, err)
			}
			w.wantCallback("r", posthaste.CallbackInProgress)
			w.pass(time.Minute)
			w.wantCallback("r", posthaste.CallbackSuccess)
			w.wantVisits("0 wf start", "2 wf failure", "1004 wf failure again", "60000 wf failure", "61002 wf failure again")
			if diff := gocmp.Diff(w.told["r"][0], w.told["r"][3]); diff != "" {
				t.Errorf("told at first (-) and again (+):\n%s", diff)
			}
			_, err = w.RetryFailureCallback(w.t.Context(), user, id)
			wantCode(t, "retry after success", err, posthaste.CodeInvalid)
			if w.letter("r").ID != id {
				t.Error("the entry in the DLQ has changed")
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		failed(t, answers(500, 200), func(w *world, id posthaste.DeadLetterID) {
			if of, err := w.CancelFailureCallback(w.t.Context(), user, id); err != nil || of.ID != "r" {
				t.Errorf("cancel: %+v, %v", of, err)
			}
			w.pass(time.Minute)
			w.wantVisits("0 wf start", "2 wf failure")
			w.wantCallback("r", posthaste.CallbackCancelled)
			_, err := w.CancelFailureCallback(w.t.Context(), user, id)
			wantCode(t, "cancel again", err, posthaste.CodeInvalid)
		})
	})
	t.Run("of a run that was restarted", func(t *testing.T) {
		failed(t, answers(500, 200), func(w *world, id posthaste.DeadLetterID) {
			done, _, err := w.Restart(w.t.Context(), user, workflow.RestartRequest{IDs: []posthaste.DeadLetterID{id}})
			if err != nil || len(done.Results) != 1 {
				t.Fatalf("restart: %v, %v", done, err)
			}
			_, err = w.CancelFailureCallback(w.t.Context(), user, id)
			wantCode(t, "cancel", err, posthaste.CodeNotFound)
			w.pass(time.Minute)
			w.wantCallback("r", posthaste.CallbackSuccess)
		})
	})
	t.Run("of a run that was deleted from the DLQ", func(t *testing.T) {
		failed(t, answers(500, 200), func(w *world, id posthaste.DeadLetterID) {
			if n, err := w.DeleteFailed(w.t.Context(), user, []posthaste.DeadLetterID{id}); n != 1 || err != nil {
				t.Fatalf("deleted %d, %v", n, err)
			}
			w.deleted[id] = true
			w.pass(time.Minute)
			w.wantCallback("r", posthaste.CallbackSuccess)
			_, err := w.RetryFailureCallback(w.t.Context(), user, id)
			wantCode(t, "retry", err, posthaste.CodeNotFound)
		})
	})
}

// wantCode requires an error with a code, or ErrNotFound for CodeNotFound.
func wantCode(t *testing.T, what string, err error, code posthaste.Code) {
	t.Helper()
	if code == posthaste.CodeNotFound && err == store.ErrNotFound {
		return
	}
	if posthaste.ErrorCode(err) != code {
		t.Errorf("%s: %v, want an error with code %v", what, err, code)
	}
}

// Contract, workflows 4.11 and D 58.
func TestLimits(t *testing.T) {
	limited := workflow.Options{Limits: engine.Limits{Retries: 5, Delay: time.Minute}, MaxEntries: 4}
	t.Run("retries of a trigger", func(t *testing.T) {
		inWorld(t, setup{options: limited}, func(w *world) {
			_, err := w.Submit(w.t.Context(), user, []workflow.Item{sdkTypeScript.trigger(site+"wf", "r", "", retries(6))})
			wantCode(t, "submit", err, posthaste.CodeLimit)
		})
	})
	for name, c := range map[string]struct {
		flow   flow
		visits []string
	}{
		"retries of a call": {
			flow{{call("a", "http://third/ok", 1_000_000)}},
			[]string{"0 wf start", "2 wf failure"},
		},
		"retries of a call in a group": {
			flow{{call("a", "http://third/ok", 1_000_000), sleep("b", time.Minute)}},
			[]string{"0 wf start", "1 wf plan a", "3 wf failure"},
		},
		"sleep": {
			flow{{sleep("a", 2*time.Minute)}},
			[]string{"0 wf start", "2 wf failure"},
		},
		"wait": {
			flow{{wait("a", "e", 2*time.Minute)}},
			[]string{"0 wf start", "2 wf failure"},
		},
		"steps": {
			flow{{run("a")}, {run("b")}, {run("c")}, {run("d")}},
			[]string{"0 wf start", "1 wf a", "2 wf b", "3 wf c", "5 wf failure"},
		},
		"steps, the last one a wait": {
			flow{{run("a")}, {run("b")}, {run("c")}, {wait("d", "e", time.Second)}},
			[]string{"0 wf start", "1 wf a", "2 wf b", "3 wf c", "5 wf failure"},
		},
		"steps, the last one an invocation": {
			flow{{run("a")}, {run("b")}, {run("c")}, {invoke("d", site+"child", "")}},
			[]string{"0 wf start", "1 wf a", "2 wf b", "3 wf c", "5 wf failure"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, setup{flows: map[string]flow{"wf": c.flow, "child": {}}, options: limited}, func(w *world) {
				w.trigger("wf", "r")
				w.pass(3 * time.Minute)
				w.wantVisits(c.visits...)
				w.wantFailure("r", 489, "489")
			})
		})
	}
	t.Run("steps of the server's own", func(t *testing.T) {
		flows := map[string]flow{"wf": {{run("a")}, {run("b")}, {call("c", "http://third/ok", 0)}, {run("d")}}}
		inWorld(t, setup{flows: flows, options: limited}, func(w *world) {
			w.trigger("wf", "r")
			w.pass(time.Minute)
			w.wantVisits("0 wf start", "1 wf a", "2 wf b", "3 ok call", "5 wf answer c", "7 wf failure")
			w.wantFailure("r", 489, "489")
		})
	})
}
