package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// pick returns some of the failed runs.
func pick(all []failedRun, indexes ...int) []failedRun {
	picked := []failedRun{}
	for _, i := range indexes {
		picked = append(picked, all[i])
	}
	return picked
}

// failApart fails so many runs, a second one after the other.
func (w *restartWorld) failApart(n int) []failedRun {
	w.Helper()
	for i := range n {
		w.failWithin(time.Second, newItem(i))
	}
	return w.inDLQ()
}

// wantNothing requires that a refused or empty request has left everything as it
// was: the DLQ, and the log of every run.
func (w *restartWorld) wantNothing(before []failedRun, change func()) {
	w.Helper()
	logs := w.logs()
	change()
	w.wait(time.Second)
	w.same("the DLQ", before, w.inDLQ())
	w.same("the logs", logs, w.logs())
}

// TestRestartDates restarts by the dates at which runs failed, both included
// (contract 4.2; decisions 21 and 23).
func TestRestartDates(t *testing.T) {
	const ms = time.Millisecond
	at := func(f failedRun, d time.Duration) string { return millis(f.Letter.FailedAt().Add(d)) }
	tests := []struct {
		name   string
		params func(all []failedRun) string
		want   []int
	}{
		{"from the very moment", func(all []failedRun) string { return "fromDate=" + at(all[1], 0) }, []int{1, 2}},
		{"from just after", func(all []failedRun) string { return "fromDate=" + at(all[1], ms) }, []int{2}},
		{"from just before", func(all []failedRun) string { return "fromDate=" + at(all[1], -ms) }, []int{1, 2}},
		{"until the very moment", func(all []failedRun) string { return "toDate=" + at(all[1], 0) }, []int{0, 1}},
		{"until just before", func(all []failedRun) string { return "toDate=" + at(all[1], -ms) }, []int{0}},
		{"until just after", func(all []failedRun) string { return "toDate=" + at(all[1], ms) }, []int{0, 1}},
		{"that moment alone", func(all []failedRun) string { return "fromDate=" + at(all[1], 0) + "&toDate=" + at(all[1], 0) }, []int{1}},
		{"an empty range", func(all []failedRun) string { return "fromDate=" + at(all[1], 0) + "&toDate=" + at(all[1], -ms) }, nil},
		{"from the beginning", func([]failedRun) string { return "fromDate=0" }, []int{0, 1, 2}},
		{"until the beginning", func([]failedRun) string { return "toDate=0" }, nil},
		{"until the end of time", func([]failedRun) string { return "toDate=9223372036854775807" }, []int{0, 1, 2}},
		{"from the end of time", func([]failedRun) string { return "fromDate=9223372036854775807" }, nil},
		{"created when another one failed", func(all []failedRun) string { return "workflowCreatedAt=" + at(all[1], 0) }, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				before := w.failApart(3)
				w.endpoint.repair()
				results := w.restart(test.params(before))
				w.wait(time.Second)
				w.wantRestarted(before, pick(before, test.want...), results, nil)
			})
		})
	}
}

// TestRestartRunIDs restarts by run ids and their prefixes (contract 4.2; workflows
// D 34).
func TestRestartRunIDs(t *testing.T) {
	ids := []string{"wfr_a", "wfr_ab", "wfr_abc", "WFR_ab", "own"}
	tests := []struct {
		name, params string
		want         []int
	}{
		{"a run id that is a prefix of others", "workflowRunId=wfr_a", []int{0, 1, 2}},
		{"a prefix of two", "workflowRunId=wfr_ab", []int{1, 2}},
		{"a whole run id", "workflowRunId=wfr_abc", []int{2}},
		{"longer than any", "workflowRunId=wfr_abcd", nil},
		{"in another letter case", "workflowRunId=WFR_", []int{3}},
		{"a part that is no prefix", "workflowRunId=ab", nil},
		{"an id without the usual prefix", "workflowRunId=o", []int{4}},
		{"several, given twice", "workflowRunId=wfr_abc&workflowRunId=own", []int{2, 4}},
		{"several in a list", "workflowRunId=wfr_abc,own", []int{2, 4}},
		{"prefixes of one another", "workflowRunId=wfr_,wfr_abc", []int{0, 1, 2}},
		{"wildcards that are none", "workflowRunId=wfr_%25", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				for i, id := range ids {
					item := newItem(i)
					item.RunID = id
					w.failWithin(time.Second, item)
				}
				before := w.inDLQ()
				w.endpoint.repair()
				results := w.restart(test.params)
				w.wait(time.Second)
				w.wantRestarted(before, pick(before, test.want...), results, nil)
			})
		})
	}
}

// TestRestartListed restarts what is listed, in the order of the list (workflows
// 7.1 and D 1, 2, 4, 35, 36, 38 and 39; decision 7).
func TestRestartListed(t *testing.T) {
	body := func(runs []failedRun) string {
		text, _ := json.Marshal(map[string]any{"dlqIds": idsOf(runs)}) // strings always can
		return string(text)
	}
	tests := []struct {
		name    string
		request func(all []failedRun) (params, body string)
		want    []int
	}{
		{"one", func(all []failedRun) (string, string) { return "dlqIds=" + all[1].id(), "" }, []int{1}},
		{"repeated in the query, the latest first", func(all []failedRun) (string, string) {
			return "dlqIds=" + all[2].id() + "&dlqIds=" + all[0].id(), ""
		}, []int{2, 0}},
		{"a list with commas", func(all []failedRun) (string, string) {
			return "dlqIds=" + all[2].id() + "," + all[1].id(), ""
		}, []int{2, 1}},
		{"in a body", func(all []failedRun) (string, string) { return "", body(pick(all, 1, 0)) }, []int{1, 0}},
		{"one text in a body", func(all []failedRun) (string, string) { return "", `{"dlqIds":"` + all[1].id() + `"}` }, []int{1}},
		{"in the query and in a body", func(all []failedRun) (string, string) {
			return "dlqIds=" + all[2].id(), body(pick(all, 0, 2))
		}, []int{2, 0}},
		{"one of them twice", func(all []failedRun) (string, string) { return "", body(pick(all, 1, 1, 0, 1)) }, []int{1, 0}},
		{"with filters that match none of them", func(all []failedRun) (string, string) {
			return "workflowUrl=https://other.example&toDate=0", body(pick(all, 1))
		}, []int{1}},
		{"an empty list", func([]failedRun) (string, string) { return "", `{"dlqIds":[]}` }, nil},
		{"a list that is null", func([]failedRun) (string, string) { return "", `{"dlqIds":null}` }, nil},
		{"an empty list with filters", func([]failedRun) (string, string) { return "workflowRunId=wfr_", `{"dlqIds":[]}` }, nil},
		{"a list without ids in it", func([]failedRun) (string, string) { return "", `{"dlqIds":[null]}` }, nil},
		{"no selection at all", func([]failedRun) (string, string) { return "", "" }, []int{0, 1, 2}},
		{"an empty object", func([]failedRun) (string, string) { return "cursor=&count=100", "{}" }, []int{0, 1, 2}},
		{"numbers in a body", func(all []failedRun) (string, string) {
			return "", `{"workflowCreatedAt":` + millis(all[1].Run.CreatedAt) + `,"count":100}`
		}, []int{1}},
		{"a date of the query, also in a body, and another one of a body", func(all []failedRun) (string, string) {
			at := millis(all[1].Letter.FailedAt())
			return "toDate=" + at, `{"toDate":` + at + `,"fromDate":` + at + `}`
		}, []int{1}},
		{"the latest first", func([]failedRun) (string, string) { return "order=latestFirst", "" }, []int{2, 1, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				before := w.failApart(3)
				w.endpoint.repair()
				params, body := test.request(before)
				results := ask[restarted](w, "POST", restartPath+"?"+params, body)
				w.wait(time.Second)
				w.wantRestarted(before, pick(before, test.want...), results, nil)
			})
		})
	}
}

// TestRestartLongList restarts more than 50 ids, page by page through the list
// (workflows 7.1 and D 4).
func TestRestartLongList(t *testing.T) {
	sequential(t)
	inRestartWorld(t, func(w *restartWorld) {
		w.failMany(120)
		before := w.inDLQ()
		w.endpoint.repair()
		ids := idsOf(before)
		slices.Reverse(ids)
		params := url.Values{"dlqIds": {strings.Join(ids, ",")}, "count": {"100"}}.Encode()

		// Somebody else takes one that the third page is about.
		taken := w.restart("dlqIds=" + before[0].id())
		if response := w.call("POST", restartPath+"?"+params, ""); response.Code != 404 {
			t.Errorf("one of the ids is gone: %d %s", response.Code, response.Body)
		}
		first := w.restart("dlqIds=" + strings.Join(ids[:119], ",") + "&count=100")
		second := w.restart("dlqIds=" + strings.Join(ids[:119], ",") + "&count=100&cursor=" + first.Cursor)
		again := w.restart("dlqIds=" + strings.Join(ids[:119], ",") + "&count=100&cursor=" + first.Cursor)
		third := w.restart(params + "&cursor=" + second.Cursor) // the list may grow behind what was done
		sizes := fmt.Sprint(len(first.WorkflowRuns), len(second.WorkflowRuns), len(again.WorkflowRuns), len(third.WorkflowRuns))
		if sizes != "50 50 0 19" || again.Cursor != second.Cursor || third.Cursor != "" {
			t.Errorf("pages of %s runs, cursors %q, %q, %q and %q", sizes, first.Cursor, second.Cursor, again.Cursor, third.Cursor)
		}
		w.wait(time.Minute)
		all := restarted{WorkflowRuns: slices.Concat(first.WorkflowRuns, second.WorkflowRuns, third.WorkflowRuns, taken.WorkflowRuns)}
		slices.Reverse(before)
		w.wantRestarted(before, before, all, nil)
	})
}

// TestRestartUnknown checks that a list with an id that is not in the DLQ is refused
// as a whole (workflows D 4), whatever is wrong with the id.
func TestRestartUnknown(t *testing.T) {
	inRestartWorld(t, func(w *restartWorld) {
		before := w.failApart(2)
		known := before[0].id()
		message := w.failMessage()
		for name, id := range map[string]string{
			"of nothing":   "946684800005-999",
			"of a message": message,
			"no id":        "x",
			"a number":     "946684800005",
			"a run id":     before[0].Run.ID,
		} {
			for _, operation := range []string{"restart", "resume"} {
				w.wantNothing(before, func() {
					want := fmt.Sprintf(`{"error":"there is no failed workflow run \"%s\" in the DLQ"}`+"\n", id)
					for _, list := range []string{id + "," + known, known + "," + id, known + "&dryRun=true&dlqIds=" + id} {
						response := w.call("POST", "/v2/workflows/dlq/"+operation+"?dlqIds="+list, "")
						if response.Code != 404 || response.Body.String() != want {
							t.Errorf("%s: %s of %s: %d %s", name, operation, list, response.Code, response.Body)
						}
					}
					if response := w.call("POST", "/v2/workflows/dlq/"+operation+"/"+id, ""); response.Code/100 != 4 {
						t.Errorf("%s: %s of it alone: %d %s", name, operation, response.Code, response.Body)
					}
				})
			}
		}
		w.wantNothing(before, func() {
			if response := w.call("POST", restartPath, `{"dlqIds":[946684800005]}`); response.Code != 404 {
				t.Errorf("a JSON number: %d %s", response.Code, response.Body)
			}
		})
		w.wantNothing(before, func() {
			const other = "Authorization: Bearer other"
			for _, path := range []string{restartPath + "?dlqIds=" + known, restartPath + "/" + known} {
				if response := w.call("POST", path, "", other); response.Code != 404 {
					t.Errorf("%s of another user: %d %s", path, response.Code, response.Body)
				}
			}
			if all := w.restart("", other); len(all.WorkflowRuns) > 0 {
				t.Errorf("another user restarted %+v", all)
			}
		})
	})
}

// TestRestartAloneHasNoParameters checks that a change of one entry is refused where
// it is given what only a sweep heeds, in the query or in a body (decision 16).
func TestRestartAloneHasNoParameters(t *testing.T) {
	tests := []struct{ name, query, body, refusal string }{
		{"a dry run", "?dryRun=true", "", `parameter \"dryRun\" is unknown`},
		{"a dry run in a body", "", `{"dryRun":true}`, `parameter \"dryRun\" is unknown`},
		{"a filter in a body", "", `{"label":"x"}`, `parameter \"label\" is unknown`},
		{"no object", "", `[]`, "the body is a JSON array"},
		{"no JSON", "", `x`, "the body is not valid JSON"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inRestartWorld(t, func(w *restartWorld) {
				before := w.failApart(1)
				const dlq = "/v2/workflows/dlq/"
				for _, route := range []string{"POST " + dlq + "restart/", "POST " + dlq + "resume/", "DELETE " + dlq} {
					w.wantNothing(before, func() {
						method, path, _ := strings.Cut(route, " ")
						response := w.call(method, path+before[0].id()+test.query, test.body)
						if response.Code != 400 || !strings.Contains(response.Body.String(), test.refusal) {
							t.Errorf("%s: %d %s", route, response.Code, response.Body)
						}
					})
				}
				if response := w.call("DELETE", dlq+before[0].id(), "{}"); response.Code != 200 {
					t.Errorf("an empty object: %d %s", response.Code, response.Body)
				}
			})
		})
	}
}

// failMessage publishes a message that belongs to no run and fails, and returns the
// id of its dead letter.
func (w *restartWorld) failMessage() string {
	w.Helper()
	ask[struct{}](w, "POST", "/v2/publish/https://a.example/message/489", "", "Upstash-Retries: 0")
	w.wait(time.Second)
	dlq := ask[struct{ Messages []struct{ DLQID string } }](w, "GET", "/v2/dlq", "")
	if len(dlq.Messages) != 1 {
		w.Fatalf("%d messages in the DLQ", len(dlq.Messages))
	}
	return dlq.Messages[0].DLQID
}
