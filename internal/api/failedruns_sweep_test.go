package api_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSweepEnds restarts all of many runs whose endpoint still fails: each once, and
// not those that failed again while the sweep went on (contract, decision 8).
func TestSweepEnds(t *testing.T) {
	for _, order := range []string{"earliestFirst", "latestFirst"} {
		t.Run(order, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				w.failMany(120)
				before := w.inDLQ()
				var swept []string
				for cursor := ""; ; {
					page := w.restart("order=" + order + "&cursor=" + cursor)
					swept = append(swept, page.dlqIDs()...)
					w.wait(time.Second) // in which they fail again
					if page.Cursor == "" {
						break
					}
					if len(swept) > len(before) {
						w.Fatalf("%d of %d runs were restarted, and there are more", len(swept), len(before))
					}
					cursor = page.Cursor
				}
				want := idsOf(before)
				if order == "latestFirst" {
					slices.Reverse(want)
				}
				w.same("restarted entries", want, swept)
				w.wantSuccessors(before, upTo(len(before)))
			})
		})
	}
}

// TestTwoSweeps lets two clients sweep at once: each entry is restarted by one of
// them (contract, decision 9).
func TestTwoSweeps(t *testing.T) {
	inRestartWorld(t, func(w *restartWorld) {
		w.failMany(120)
		before := w.inDLQ()
		var sweeps [2][]string
		var clients sync.WaitGroup
		for i := range sweeps {
			clients.Go(func() {
				for _, page := range w.sweep("count=17") {
					sweeps[i] = append(sweeps[i], page.dlqIDs()...)
				}
			})
		}
		clients.Wait()
		w.wait(time.Minute)
		all := slices.Concat(sweeps[0], sweeps[1])
		want := idsOf(before)
		slices.Sort(all)
		slices.Sort(want)
		w.same("restarted entries", want, all)
		w.wantSuccessors(before, upTo(len(before)))
	})
}

// TestRestartAgain repeats requests with an idempotency key (contract, decision 10).
func TestRestartAgain(t *testing.T) {
	sequential(t)
	const key = "Idempotency-Key: k"
	post := func(w *restartWorld, target string, header ...string) *httptest.ResponseRecorder {
		return w.call("POST", "/v2/workflows/dlq/"+target, "", append(header, key)...)
	}
	// answered requires a success and returns the answer.
	answered := func(w *restartWorld, target string, header ...string) string {
		w.Helper()
		response := post(w, target, header...)
		if response.Code != 200 {
			w.Fatalf("%s: %d %s", target, response.Code, response.Body)
		}
		return response.Body.String()
	}
	refused := func(w *restartWorld, status int, target string, header ...string) {
		w.Helper()
		if response := post(w, target, header...); response.Code != status {
			w.Errorf("%s %q: %d %s, want %d", target, header, response.Code, response.Body, status)
		}
	}
	tests := []struct {
		name string
		test func(w *restartWorld, all []failedRun)
		want []int // restarted
	}{
		{"all", func(w *restartWorld, _ []failedRun) {
			first := answered(w, "restart?count=2")
			w.wait(time.Minute) // in which others fail
			w.same("the same again", first, answered(w, "restart?count=2"))
		}, []int{0, 1}},
		{"a list", func(w *restartWorld, all []failedRun) {
			list := "restart?dlqIds=" + all[2].id() + "," + all[0].id()
			first := answered(w, list)
			w.same("the same again", first, answered(w, list))
			refused(w, 400, "restart?dlqIds="+all[0].id()+","+all[2].id())
		}, []int{0, 2}},
		{"one", func(w *restartWorld, all []failedRun) {
			one := "restart/" + all[1].id()
			first := answered(w, one)
			w.same("the same again", first, answered(w, one))
			refused(w, 400, "resume/"+all[1].id())
			refused(w, 400, "restart/"+all[2].id())
		}, []int{1}},
		{"nothing", func(w *restartWorld, _ []failedRun) {
			first := answered(w, "restart?toDate=0")
			w.same("the same again", first, answered(w, "restart?toDate=0"))
		}, nil},
		{"each page of a sweep", func(w *restartWorld, _ []failedRun) {
			first := answered(w, "restart?count=2")
			_, cursor, _ := strings.Cut(strings.Split(first, `",`)[0], `"cursor":"`)
			second := answered(w, "restart?count=2&cursor="+cursor)
			w.same("the first page again", first, answered(w, "restart?count=2"))
			w.same("the second page again", second, answered(w, "restart?count=2&cursor="+cursor))
			refused(w, 400, "restart?count=3&cursor="+cursor)
		}, []int{0, 1, 2}},
		{"with other parameters", func(w *restartWorld, _ []failedRun) {
			answered(w, "restart?count=1", "Service-Retries: 2")
			refused(w, 400, "restart?count=2", "Service-Retries: 2")
			refused(w, 400, "restart?count=1&workflowRunId=wfr_", "Service-Retries: 2")
			refused(w, 400, "restart?count=1", "Service-Retries: 3")
			refused(w, 400, "restart?count=1")
			refused(w, 400, "resume?count=1", "Service-Retries: 2")
		}, []int{0}},
		{"an override in the other family is the same", func(w *restartWorld, _ []failedRun) {
			first := answered(w, "restart?count=1", "Service-Retries: 2")
			w.same("the same again", first, answered(w, "restart?count=1", "Upstash-Retries: 2"))
		}, []int{0}},
		{"after one that was refused", func(w *restartWorld, all []failedRun) {
			refused(w, 404, "restart?dlqIds=1-1")
			refused(w, 400, "restart?count=x")
			answered(w, "restart?dlqIds="+all[0].id())
		}, []int{0}},
		{"just within the window", func(w *restartWorld, _ []failedRun) {
			first := answered(w, "restart?count=1")
			w.wait(24*time.Hour - time.Second)
			w.same("the same again", first, answered(w, "restart?count=1"))
		}, []int{0}},
		{"after the window", func(w *restartWorld, _ []failedRun) {
			first := answered(w, "restart?count=1")
			w.wait(24 * time.Hour)
			if again := answered(w, "restart?count=1"); again == first {
				w.Errorf("answered %s after a day", again)
			}
		}, []int{0, 1}},
		{"by another user", func(w *restartWorld, _ []failedRun) {
			answered(w, "restart?count=1")
			if theirs := answered(w, "restart?count=2", "Authorization: Bearer other"); theirs != `{"workflowRuns":[]}`+"\n" {
				w.Errorf("another user is answered %s", theirs)
			}
		}, []int{0}},
		{"at the same time", func(w *restartWorld, _ []failedRun) {
			var answers [8]string
			var clients sync.WaitGroup
			for i := range answers {
				clients.Go(func() { answers[i] = answered(w, "restart?count=2") })
			}
			clients.Wait()
			if distinct := slices.Compact(answers[:]); len(distinct) > 1 {
				w.Errorf("answers differ: %q", distinct)
			}
		}, []int{0, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				before := w.failApart(3)
				test.test(w, before)
				w.wait(time.Minute)
				w.wantSuccessors(before, test.want)
			})
		})
	}
}

// upTo returns the numbers from 0 to n-1.
func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// wantSuccessors requires those runs to have been restarted once, and the others not
// to have been, while their endpoint goes on failing.
func (w *restartWorld) wantSuccessors(before []failedRun, restarted []int) {
	w.Helper()
	stay := map[string]int{}
	for i, f := range before {
		if !slices.Contains(restarted, i) {
			stay[f.Run.ID]++
		}
	}
	again := map[string]int{}
	for _, f := range w.inDLQ() {
		if f.Run.Origin == nil {
			stay[f.Run.ID]--
		} else {
			again[f.Run.Origin.ID]++
		}
	}
	want := map[string]int{}
	for _, i := range restarted {
		want[before[i].Run.ID] = 1
	}
	w.same("restarts", want, again)
	for id, n := range stay {
		if n != 0 {
			w.Errorf("run %s does not stay in the DLQ as it was", id)
		}
	}
}

// TestRestartDryRun checks that a dry run tells what a restart then does, and does
// nothing (contract, decisions 10 and 18).
func TestRestartDryRun(t *testing.T) {
	type dryRun struct {
		DryRun bool
		Total  int
		DLQIDs []string
		Cursor string
	}
	inRestartWorld(t, func(w *restartWorld) {
		w.failMany(60)
		before := w.inDLQ()
		w.endpoint.repair()
		var first, second dryRun
		w.wantNothing(before, func() {
			first = ask[dryRun](w, "POST", restartPath+"?dryRun=true&count=100", "")
			second = ask[dryRun](w, "POST", restartPath+"?dryRun=TRUE&cursor="+first.Cursor, "")
		})
		w.same("the first page", dryRun{true, 60, idsOf(before[:50]), first.Cursor}, first)
		w.same("the second page", dryRun{true, 10, idsOf(before[50:]), ""}, second)

		list := "dlqIds=" + before[7].id() + "," + before[3].id()
		w.wantNothing(before, func() {
			w.same("dry run of a list", dryRun{true, 2, idsOf(pick(before, 7, 3)), ""}, ask[dryRun](w, "POST", restartPath+"?dryRun=true&"+list, ""))
			w.same("dry run of nothing", dryRun{true, 0, []string{}, ""}, ask[dryRun](w, "POST", restartPath+"?dryRun=true&toDate=0", ""))
			w.same("dry run of an empty list", dryRun{true, 0, []string{}, ""}, ask[dryRun](w, "POST", restartPath, `{"dryRun":true,"dlqIds":[]}`))
		})
		results := w.restart("dryRun=false&" + list)
		w.wait(time.Second)
		w.wantRestarted(before, pick(before, 7, 3), results, nil)
	})
}

// TestRestartInTheBackground restarts and resumes behind the request (contract,
// decisions 10 and 19), what had failed when it was asked for.
func TestRestartInTheBackground(t *testing.T) {
	for _, kind := range []string{"restart", "resume"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "resume" {
				sequential(t)
			}
			inRestartWorld(t, func(w *restartWorld) {
				without := newItem(230)
				without.FlowControl.Key, without.FlowControl.Parallelism = "", 0
				w.failMany(230) // more than two steps
				w.failWithin(time.Second, without)
				before := w.inDLQ()
				begun := ask[struct{ ActionID string }](w, "POST", "/v2/workflows/dlq/"+kind+"?async=true&workflowRunId=wfr_failed", "",
					"Service-Flow-Control-Key: other")
				w.wait(time.Minute)
				type action struct {
					Kind, State              string
					Total, Processed, Failed int
					Failures                 []struct{ DLQID, Error string }
					Filter                   map[string][]string
				}
				got := ask[action](w, "GET", "/v2/workflows/bulkActions/"+begun.ActionID, "")
				w.same("action", action{
					Kind: kind, State: "FINISHED", Total: 231, Processed: 230, Failed: 1,
					Failures: []struct{ DLQID, Error string }{{before[230].id(),
						`the flow-control key "other" cannot be set alone: the failed run had no flow-control value, give one too`}},
					Filter: map[string][]string{"workflowRunId": {"wfr_failed"}},
				}, got)
				w.wantSuccessors(before, upTo(230))
				for _, f := range w.inDLQ() {
					if f.Run.Origin != nil && (f.Run.FlowControl.Key != "other" || f.Run.CallerIP != "192.0.2.7") {
						w.Fatalf("restarted with flow-control key %q by %s", f.Run.FlowControl.Key, f.Run.CallerIP)
					}
				}
			})
		})
	}
}

// TestRestartWhileTold restarts runs whose failure callback is under way: it arrives,
// and the entry does not come back (contract, decision 9).
func TestRestartWhileTold(t *testing.T) {
	inRestartWorld(t, func(w *restartWorld) {
		for i := range 2 {
			item := newItem(i)
			item.FailureCallback.URL = "https://b.example/slow"
			w.failWithin(time.Second, item)
		}
		before := w.inDLQ()
		w.endpoint.repair()
		results := w.restart("dlqIds=" + before[0].id())
		w.wait(time.Second)
		w.wantRestarted(before, pick(before, 0), results, nil)

		w.endpoint.release()
		w.wait(time.Hour)
		want := map[string]string{before[0].id(): "404", before[1].id(): "200"}
		got := map[string]string{}
		for _, f := range before {
			got[f.id()] = fmt.Sprint(w.call("GET", "/v2/workflows/dlq/"+f.id(), "").Code)
		}
		w.same("entries by their id", want, got)
		told, err := w.store.Run(t.Context(), "ann", before[0].Run.Position)
		if err != nil || told.Reported == nil || told.Reported.State != "CALLBACK_FAIL" {
			t.Errorf("where the callback of the failed run stands: %+v, %v", told, err)
		}
		if listed := ask[struct{ Messages []struct{ DLQID string } }](w, "GET", "/v2/workflows/dlq?failureFunctionState=CALLBACK_FAIL", ""); len(listed.Messages) != 1 {
			t.Errorf("listed by the state of the callback: %+v", listed)
		}
	})
}
