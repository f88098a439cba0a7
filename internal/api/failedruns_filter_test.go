package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste"
)

// failVaried fails sixteen runs, a second apart, that differ in everything by which
// failed runs can be selected. It returns what is in the DLQ.
func (w *restartWorld) failVaried() []failedRun {
	w.Helper()
	for i := range 16 {
		item := newItem(i)
		item.RunID = fmt.Sprintf("%s_%02d", []string{"wfr_even", "wfr_odd", "other"}[i%3], i)
		item.Destination = "https://a.example/flow/" + []string{"489", "500", "none"}[i/2%3]
		item.CallerIP = []string{"203.0.113.1", "203.0.113.10"}[i/4%2]
		item.Labels = [][]string{nil, {"x"}, {"x", "y"}, {"x,y"}}[i%4]
		item.FlowControl.Key = []string{"k", "key", ""}[i%3]
		if item.FlowControl.Key == "" {
			item.FlowControl = posthaste.FlowControl{}
		}
		item.FailureCallback.URL = "https://b.example/" + []string{"ok", "fail", "slow"}[i/3%3]
		item.FailureCallback.Settings.Retries = retries(0)
		if i%5 == 0 {
			item.FailureCallback = nil
		}
		w.failWithin(time.Second, item)
	}
	return w.inDLQ()
}

// selector is a filter with a value, and what it selects by the words of the contract
// (workflows 7.1).
type selector struct {
	name   string
	params func(all []failedRun) url.Values
	picks  func(f failedRun, all []failedRun) bool
}

// middle is the failed run whose values filters are given.
func middle(all []failedRun) failedRun { return all[7] }

func one(name string, value func(all []failedRun) string) func(all []failedRun) url.Values {
	return func(all []failedRun) url.Values { return url.Values{name: {value(all)}} }
}

func text(value string) func([]failedRun) string { return func([]failedRun) string { return value } }

func millis(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }

var selectors = []selector{
	{"fromDate", one("fromDate", func(all []failedRun) string { return millis(middle(all).Letter.FailedAt()) }),
		func(f failedRun, all []failedRun) bool {
			return !f.Letter.FailedAt().Before(middle(all).Letter.FailedAt())
		}},
	{"toDate", one("toDate", func(all []failedRun) string { return millis(all[12].Letter.FailedAt()) }),
		func(f failedRun, all []failedRun) bool { return !f.Letter.FailedAt().After(all[12].Letter.FailedAt()) }},
	{"workflowUrl", one("workflowUrl", text("https://a.example/flow/489")),
		func(f failedRun, _ []failedRun) bool { return f.Run.URL == "https://a.example/flow/489" }},
	{"several URLs", func([]failedRun) url.Values {
		return url.Values{"workflowUrl": {"https://a.example/flow/489"}, "url": {"https://a.example/flow/none"}}
	}, func(f failedRun, _ []failedRun) bool { return f.Run.URL != "https://a.example/flow/500" }},
	{"workflowRunId", one("workflowRunId", func(all []failedRun) string { return middle(all).Run.ID }),
		func(f failedRun, all []failedRun) bool { return f.Run.ID == middle(all).Run.ID }},
	{"prefix of workflowRunId", one("workflowRunId", text("wfr_")),
		func(f failedRun, _ []failedRun) bool { return strings.HasPrefix(f.Run.ID, "wfr_") }},
	{"workflowCreatedAt", one("workflowCreatedAt", func(all []failedRun) string { return millis(middle(all).Run.CreatedAt) }),
		func(f failedRun, all []failedRun) bool { return f.Run.CreatedAt.Equal(middle(all).Run.CreatedAt) }},
	{"label", one("label", text("x")),
		func(f failedRun, _ []failedRun) bool { return slices.Contains(f.Run.Labels, "x") }},
	{"callerIp", one("callerIp", text("203.0.113.1")),
		func(f failedRun, _ []failedRun) bool { return f.Run.CallerIP == "203.0.113.1" }},
	{"flowControlKey", one("flowControlKey", text("k")),
		func(f failedRun, _ []failedRun) bool { return f.Run.FlowControl.Key == "k" }},
	{"failureFunctionState", one("failureFunctionState", text("CALLBACK_FAIL,callback_inprogress")),
		func(f failedRun, _ []failedRun) bool {
			return f.Run.Reported != nil && f.Run.Reported.State != posthaste.CallbackSuccess
		}},
	{"responseStatus", one("responseStatus", text("500")),
		func(f failedRun, _ []failedRun) bool { return f.Run.FailedStatus == 500 }},
}

// TestRestartFilters restarts by every filter alone and by every two of them
// (contract 4.2; workflows 7.1 and D 34, 41, 53).
func TestRestartFilters(t *testing.T) {
	sequential(t)
	for i, first := range selectors {
		t.Run(first.name, func(t *testing.T) { testSelection(t, first) })
		for _, second := range selectors[i+1:] {
			if strings.Contains(second.name, "workflowRunId") && strings.Contains(first.name, "workflowRunId") ||
				first.name == "workflowUrl" && second.name == "several URLs" {
				continue // values of one filter
			}
			t.Run(first.name+" and "+second.name, func(t *testing.T) { testSelection(t, first, second) })
		}
	}
}

func testSelection(t *testing.T, by ...selector) {
	inRestartWorld(t, func(w *restartWorld) {
		before := w.failVaried()
		params := url.Values{}
		chosen := slices.Clone(before)
		for _, s := range by {
			for name, values := range s.params(before) {
				params[name] = values
			}
			chosen = slices.DeleteFunc(chosen, func(f failedRun) bool { return !s.picks(f, before) })
		}
		w.endpoint.repair()
		results := w.restart(params.Encode())
		w.wait(time.Second)
		w.wantRestarted(before, chosen, results, nil)
		if results.Cursor != "" {
			w.Errorf("the last page has the cursor %q", results.Cursor)
		}
	})
}
