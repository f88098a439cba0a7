package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste"
)

// TestRestartOverrides restarts with every override, in both families of headers
// (contract 4.2, rule 4; workflows 7.2 and D 42 and 54).
func TestRestartOverrides(t *testing.T) {
	sequential(t)
	flow := func(key string, limit posthaste.FlowLimit) func(*posthaste.Settings) {
		return func(s *posthaste.Settings) { s.FlowControl = posthaste.FlowControl{Key: key, FlowLimit: limit} }
	}
	retriesOf := func(n int) func(*posthaste.Settings) {
		return func(s *posthaste.Settings) { s.Retries = retries(n) }
	}
	labels := func(labels ...string) func(*posthaste.Settings) {
		return func(s *posthaste.Settings) {
			s.Labels = labels
			s.Header.Set("Upstash-Label", strings.Join(labels, ","))
			if c := s.FailureCallback; c != nil {
				c.Settings.Header = http.Header{"Upstash-Label": s.Header["Upstash-Label"]}
				c.Given["Upstash-Label"] = s.Header["Upstash-Label"]
			}
		}
	}
	original := posthaste.FlowLimit{Parallelism: 1000}
	narrow := posthaste.FlowLimit{Parallelism: 2}
	tests := []struct {
		name   string
		header []string
		change func(*posthaste.Settings)
		delay  time.Duration
	}{
		{"none", nil, nil, 0},
		{"Service retries", []string{"Service-Retries: 2"}, retriesOf(2), 0},
		{"Upstash retries", []string{"Upstash-Retries: 2"}, retriesOf(2), 0},
		{"retries in both families", []string{"Service-Retries: 2", "Upstash-Retries: 3"}, retriesOf(2), 0},
		{"Service key alone", []string{"Service-Flow-Control-Key: other"}, flow("other", original), 0},
		{"Upstash key alone", []string{"Upstash-Flow-Control-Key: other"}, flow("other", original), 0},
		{"Service value alone", []string{"Service-Flow-Control-Value: parallelism=2"}, flow("k", narrow), 0},
		{"Upstash value alone", []string{"Upstash-Flow-Control-Value: parallelism=2"}, flow("k", narrow), 0},
		{"both halves", []string{"Service-Flow-Control-Key: other", "Service-Flow-Control-Value: parallelism=2"}, flow("other", narrow), 0},
		{"halves of two families", []string{"Service-Flow-Control-Key: other", "Upstash-Flow-Control-Value: parallelism=2"}, flow("other", narrow), 0},
		{"halves in both families", []string{
			"Service-Flow-Control-Key: other", "Upstash-Flow-Control-Key: third",
			"Service-Flow-Control-Value: parallelism=2", "Upstash-Flow-Control-Value: parallelism=3",
		}, flow("other", narrow), 0},
		{"a value of other limits", []string{"Service-Flow-Control-Value: rate=5, period=1m"},
			flow("k", posthaste.FlowLimit{Rate: 5, Period: time.Minute}), 0},
		{"retry delay", []string{"Upstash-Retry-Delay: 10 * retried"},
			func(s *posthaste.Settings) { s.RetryDelay = "10 * retried" }, 0},
		{"Service labels", []string{"Service-Label: x,y"}, labels("x", "y"), 0},
		{"Upstash labels", []string{"Upstash-Label: z"}, labels("z"), 0},
		{"failure callback", []string{"Upstash-Failure-Callback: https://c.example/ok"}, func(s *posthaste.Settings) {
			if s.FailureCallback != nil {
				s.FailureCallback.URL = "https://c.example/ok"
			}
		}, 0},
		{"Service delay", []string{"Service-Delay: 10m"}, nil, 10 * time.Minute},
		{"Upstash delay", []string{"Upstash-Delay: 1h30m"}, nil, 90 * time.Minute},
		{"settings that are no overrides", []string{
			"Upstash-Method: GET", "Upstash-Timeout: 5s", "Upstash-Forward-X: y", "Upstash-Redact-Fields: body",
			"Upstash-Callback: https://c.example/ok", "Content-Type: text/html",
		}, nil, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				before := w.failApart(2)
				w.endpoint.repair()
				at := time.Now()
				results := w.restart("", test.header...)
				w.wait(2 * time.Hour)
				w.wantRestarted(before, before, results, test.change)
				for _, run := range results.WorkflowRuns {
					if m := w.endpoint.firstDelivery(run.WorkflowRunID); m == nil || !m.NotBefore.Equal(at.Add(test.delay)) {
						t.Errorf("the first delivery of %s was not due %v after the restart: %+v", run.WorkflowRunID, test.delay, m)
					}
				}
			})
		})
	}
}

// TestRestartOne restarts a single entry by its path (workflows 6.4).
func TestRestartOne(t *testing.T) {
	inRestartWorld(t, func(w *restartWorld) {
		before := w.failApart(3)
		w.endpoint.repair()
		path := restartPath + "/" + before[1].id()
		one := ask[restartedRun](w, "POST", path, "", "Service-Retries: 2")
		w.wait(time.Second)
		w.wantRestarted(before, pick(before, 1), restarted{WorkflowRuns: []restartedRun{one}}, func(s *posthaste.Settings) { s.Retries = retries(2) })
		if response := w.call("POST", path, ""); response.Code != 404 {
			t.Errorf("once more: %d %s", response.Code, response.Body)
		}
	})
}

// TestRestartHalfFlowControl overrides half of a flow control that a failed run had
// nothing of (workflows 7.2): that run stays, and the others are restarted (D 40).
func TestRestartHalfFlowControl(t *testing.T) {
	tests := []struct {
		name, header, want string
		change             func(*posthaste.Settings)
	}{
		{"key", "Service-Flow-Control-Key: other",
			`the flow-control key "other" cannot be set alone: the failed run had no flow-control value, give one too`,
			func(s *posthaste.Settings) { s.FlowControl.Key = "other" }},
		{"value", "Upstash-Flow-Control-Value: parallelism=3",
			`the flow-control value cannot be set alone: the failed run had no flow-control key, give one too`,
			func(s *posthaste.Settings) { s.FlowControl.Parallelism = 3 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				without := newItem(0)
				without.FlowControl = posthaste.FlowControl{}
				w.failWithin(time.Second, without)
				w.failWithin(time.Second, newItem(1))
				before := w.inDLQ()
				w.wantNothing(before, func() {
					for _, path := range []string{restartPath + "/" + before[0].id(), restartPath + "?dlqIds=" + before[0].id()} {
						response := w.call("POST", path, "", test.header)
						if text := strings.ReplaceAll(response.Body.String(), `\"`, `"`); response.Code != 400 || !strings.Contains(text, test.want) {
							t.Errorf("%s: %d %s, want %s", path, response.Code, response.Body, test.want)
						}
					}
				})
				w.endpoint.repair()
				results := w.restart("", test.header)
				w.same("what stays", []refused{{before[0].id(), test.want}}, results.Failures)
				w.wait(time.Second)
				w.wantRestarted(before, pick(before, 1), results, test.change)
			})
		})
	}
}

// TestRestartPastRefusals sweeps over failed runs that the overrides make unacceptable:
// they stay, and neither keeps the sweep from what lies behind them (D 40). A dry run
// foresees them.
func TestRestartPastRefusals(t *testing.T) {
	const value = "Service-Flow-Control-Value: parallelism=3"
	inRestartWorld(t, func(w *restartWorld) {
		for i := range 2 {
			without := newItem(i)
			without.FlowControl = posthaste.FlowControl{}
			w.failWithin(time.Second, without)
		}
		w.failWithin(time.Second, newItem(2))
		before := w.inDLQ()
		w.wantNothing(before, func() {
			all := ask[foreseen](w, "POST", restartPath+"?dryRun=true", "", value)
			w.same("foreseen refusals", []string{before[0].id(), before[1].id()}, refusedIDs(all.Failures))
			w.same("foreseen total", 3, all.Total)
			listed := ask[foreseen](w, "POST", restartPath+"?dryRun=true&dlqIds="+before[0].id(), "", value)
			w.same("foreseen refusal of a list", []string{before[0].id()}, refusedIDs(listed.Failures))
			w.same("foreseen refusals of none", 0, len(ask[foreseen](w, "POST", restartPath+"?dryRun=true", "").Failures))
		})
		w.endpoint.repair()
		cursor := ""
		for i := range 2 {
			page := w.restart("count=1&cursor="+cursor, value)
			w.same("restarted", []string{}, page.dlqIDs())
			w.same("refused", []string{before[i].id()}, refusedIDs(page.Failures))
			cursor = page.Cursor
		}
		last := w.restart("count=1&cursor="+cursor, value)
		w.same("the last page", []string{before[2].id()}, last.dlqIDs())
		w.same("cursor of the last page", "", last.Cursor)
		w.wait(time.Second)
		if response := w.call("POST", restartPath+"?count=2", "", value); response.Code != http.StatusBadRequest {
			t.Errorf("none on the only page can be restarted: %d %s", response.Code, response.Body)
		}
	})
}

// foreseen is the answer to a dry run.
type foreseen struct {
	Total    int
	Failures []refused
}

// refused is an entry that stays.
type refused struct{ DLQID, Error string }

func refusedIDs(failures []refused) (ids []string) {
	for _, f := range failures {
		ids = append(ids, f.DLQID)
	}
	return ids
}

// TestRestartOverLimit overrides with what no message may ask for: nothing is
// restarted, now or behind the request, and the answer says why (D 40).
func TestRestartOverLimit(t *testing.T) {
	overrides := map[string]string{
		"Service-Retries: 11": `Service-Retries "11" is over the limit of 10`,
		"Upstash-Delay: 25h":  `Upstash-Delay "25h" is further ahead than the limit of 1d`,
	}
	inRestartWorld(t, func(w *restartWorld) {
		before := w.failApart(2)
		for _, request := range []string{restartPath, restartPath + "?count=1", restartPath + "?dryRun=true", restartPath + "?async=true", restartPath + "/" + before[0].id()} {
			for header, want := range overrides {
				w.wantNothing(before, func() {
					if response := w.call("POST", request, "", header); response.Code != http.StatusPreconditionFailed || response.Body.String() != errorJSON(want) {
						t.Errorf("%s with %s: %d %s, want 412 %s", request, header, response.Code, response.Body, want)
					}
				})
			}
		}
	})
}

// TestRestartMalformed checks that a request with anything wrong in it is answered
// with a sentence and changes nothing (contract, decisions 5, 16 and 26; workflows
// D 1, 3 and 37).
func TestRestartMalformed(t *testing.T) {
	sequential(t)
	const cursors = `is not the cursor of an earlier answer or a Unix time in milliseconds`
	tests := []struct{ name, params, body, header, want string }{
		{"unknown parameter", "workflowUrI=x", "", "", `parameter "workflowUrI" is unknown`},
		{"unknown parameter in the body", "", `{"ids":[]}`, "", `parameter "ids" is unknown`},
		{"a control in the body", "", `{"dlqIds":["1-1"],"Service-Retries":5}`, "", `"Service-Retries" has no effect in the body`},
		{"a control in the body, in small letters", "", `{"upstash-retries":5}`, "", `"upstash-retries" has no effect in the body`},
		{"unknown parameter beside ids", "dlqIds=1-1&x=y", "", "", `parameter "x" is unknown`},
		{"a filter of messages", "queueName=q", "", "", `parameter "queueName" is unknown`},
		{"a list without value", "dlqIds=", "", "", "dlqIds has no value"},
		{"a list of blanks", "dlqIds=%0A,%C2%A0", "", "", "dlqIds has no value"},
		{"a creation of blanks", "workflowCreatedAt=%0A", "", "", "workflowCreatedAt has no value"},
		{"a filter without value", "workflowUrl=", "", "", "workflowUrl has no value"},
		{"a prefix of nothing", "workflowRunId=", "", "", "workflowRunId has no value"},
		{"a filter of nothing in the body", "", `{"label":[]}`, "", "label has no value"},
		{"a filter of null in the body", "", `{"workflowUrl":null}`, "", "workflowUrl has no value"},
		{"another date in the body", "toDate=5", `{"toDate":6}`, "", "toDate is given in the query and in the body, with different values: give it once"},
		{"another filter in the body", "label=a", `{"label":"b"}`, "", "label is given in the query and in the body, with different values: give it once"},
		{"a list of null beside a filter", "", `{"dlqIds":null,"fromDate":1}`, "", "dlqIds has no value"},
		{"date", "fromDate=yesterday", "", "", `fromDate "yesterday" is not a Unix time in milliseconds`},
		{"negative date", "toDate=-1", "", "", `toDate "-1" is not a Unix time in milliseconds`},
		{"date with a fraction", "", `{"fromDate":1.5}`, "", `fromDate "1.5" is not a Unix time in milliseconds`},
		{"date beyond numbers", "toDate=9223372036854775808", "", "", `toDate "9223372036854775808" is not`},
		{"two dates", "fromDate=1&fromDate=2", "", "", "fromDate is given 2 times"},
		{"creation", "workflowCreatedAt=x", "", "", `workflowCreatedAt "x" is not a Unix time in milliseconds`},
		{"no count", "count=0", "", "", `count "0" is not a whole number of at least 1`},
		{"negative count", "count=-1", "", "", `count "-1" is not a whole number of at least 1`},
		{"count of letters", "", `{"count":"ten"}`, "", `count "ten" is not a whole number of at least 1`},
		{"cursor", "cursor=x", "", "", `cursor "x" ` + cursors},
		{"cursor of a list without one", "cursor=i2-00000000", "", "", `cursor "i2-00000000" ` + cursors},
		{"cursor of another list", "dlqIds=1-1&cursor=i1-00000000", "", "", `cursor "i1-00000000" is not the cursor of an earlier answer to the same list of dlqIds`},
		{"cursor beyond the list", "dlqIds=1-1&cursor=i9-00000000", "", "", `cursor "i9-00000000" is not`},
		{"cursor of a sweep with a list", "dlqIds=1-1&cursor=p1-p2", "", "", `cursor "p1-p2" is not`},
		{"order", "order=random", "", "", `order "random" is not earliestFirst or latestFirst`},
		{"source", "source=message", "", "", `source "message" is not workflow`},
		{"state", "failureFunctionState=FAILED", "", "", `failureFunctionState "FAILED" is not CALLBACK_INPROGRESS,`},
		{"status", "responseStatus=5xx", "", "", `responseStatus "5xx" is not an HTTP status, 503 for no answer or 504 for a timeout`},
		{"dry run", "dryRun=perhaps", "", "", `dryRun "perhaps" is not true or false`},
		{"async", "async=1", "", "", `async "1" is not true or false`},
		{"async dry run", "async=true&dryRun=true", "", "", "dryRun cannot be given with async=true"},
		{"async with ids", "async=true&dlqIds=1-1", "", "", "dlqIds cannot be given with async=true"},
		{"async with a count", "async=true&count=5", "", "", "count cannot be given with async=true"},
		{"async with a key", "async=true", "", "Idempotency-Key: k", "Idempotency-Key cannot be given with async=true"},
		{"empty key", "", "", "Idempotency-Key:  ", `Idempotency-Key "" has 0 bytes, a text of 1 to 255 bytes is accepted`},
		{"long key", "", "", "Idempotency-Key: " + strings.Repeat("k", 256), `has 256 bytes, a text of 1 to 255 bytes is accepted`},
		{"body that is no JSON", "", "dlqIds=1-1", "", "JSON"},
		{"half a body", "", `{"dlqIds":["1-1"`, "", "JSON"},
		{"body that is a list", "", `["1-1"]`, "", "body"},
		{"body that is null", "", "null", "", "the body is null"},
		{"object for a list", "", `{"dlqIds":{"a":1}}`, "", "dlqIds is"},
		{"list of lists", "", `{"dlqIds":[["1-1"]]}`, "", "dlqIds is"},
		{"retries", "", "", "Service-Retries: many", `Service-Retries "many" is not`},
		{"negative retries", "", "", "Upstash-Retries: -1", `Upstash-Retries "-1" is not`},
		{"flow value", "", "", "Service-Flow-Control-Value: fast", `Service-Flow-Control-Value "fast" is not`},
		{"delay", "", "", "Service-Delay: soon", `Service-Delay "soon" is not`},
		{"retry delay", "", "", "Upstash-Retry-Delay: soon", "Upstash-Retry-Delay"},
		{"failure callback", "", "", "Upstash-Failure-Callback: nowhere", "Upstash-Failure-Callback"},
		{"failure callback to a metadata service", "", "", "Upstash-Failure-Callback: http://169.254.169.254/", "metadata"},
	}
	inRestartWorld(t, func(w *restartWorld) {
		before := w.failApart(2)
		for _, test := range tests {
			var header []string
			if test.header != "" {
				header = append(header, test.header)
			}
			for _, operation := range []string{"restart", "resume"} {
				w.wantNothing(before, func() {
					response := w.call("POST", "/v2/workflows/dlq/"+operation+"?"+test.params, test.body, header...)
					text := strings.ReplaceAll(response.Body.String(), `\"`, `"`)
					if response.Code != 400 || !strings.HasPrefix(text, `{"error":`) || !strings.Contains(text, test.want) {
						t.Errorf("%s: %s: %d %s, want %s", operation, test.name, response.Code, text, test.want)
					}
				})
			}
		}
		w.wantNothing(before, func() {
			response := w.call("POST", restartPath, "", "Authorization: Bearer reader")
			if response.Code != http.StatusForbidden { // contract, decision 24
				t.Errorf("with a token that may only read: %d %s", response.Code, response.Body)
			}
			response = w.call("POST", restartPath, "", "Authorization: Bearer nobody")
			if !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, response.Code) {
				t.Errorf("with an unknown token: %d %s", response.Code, response.Body)
			}
		})
	})
}
