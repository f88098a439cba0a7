package wire_test

import (
	"fmt"
	"math"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// ten is how many runs a page of their log has.
var ten = wire.Count{Default: 10, Most: 10}

// Contract, workflows 6.3: what the parameters select, of runs and of events.
func TestRunLog(t *testing.T) {
	a := messageID(1)
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	tests := []struct {
		name, params string
		runs         func(*store.RunQuery)   // changes what selects all runs
		events       func(*store.EventQuery) // and all events
	}{
		{"nothing given", "", func(*store.RunQuery) {}, func(*store.EventQuery) {}},
		{"without effect", "api=llm&groupBy=workflowRunId",
			func(*store.RunQuery) {}, func(*store.EventQuery) {}},
		{"count", "count=7",
			func(q *store.RunQuery) { q.Limit = 7 },
			func(q *store.EventQuery) { q.Limit = 7 }},
		{"count over the most", "count=1000", func(*store.RunQuery) {}, func(*store.EventQuery) {}},
		{"earliest first", "order=earliestFirst",
			func(q *store.RunQuery) { q.OldestFirst = true },
			func(q *store.EventQuery) { q.OldestFirst = true }},
		{"dates", fmt.Sprintf("fromDate=%d&toDate=%d", ms, ms+1),
			func(q *store.RunQuery) {
				q.Low, q.High = posthaste.FirstPosition(at(ms)), posthaste.LastPosition(at(ms+1))
			},
			func(q *store.EventQuery) {
				q.Low, q.High = posthaste.FirstPosition(at(ms)), posthaste.LastPosition(at(ms+1))
			}},
		{"cursor", "cursor=" + wire.Cursor(77),
			func(q *store.RunQuery) { q.High = 77 },
			func(q *store.EventQuery) { q.High = 77 }},
		{"cursor, earliest first", "order=earliestFirst&cursor=" + wire.Cursor(77),
			func(q *store.RunQuery) { q.OldestFirst, q.Low = true, 77 },
			func(q *store.EventQuery) { q.OldestFirst, q.Low = true, 77 }},
		{"id", "workflowRunId=x&workflowRunId=y",
			func(q *store.RunQuery) { q.Filter.RunIDs = []string{"x", "y"} },
			func(q *store.EventQuery) { q.Filter.RunIDs = []string{"x", "y"} }},
		{"id with a comma", "workflowRunId=x,y",
			func(q *store.RunQuery) { q.Filter.RunIDs = []string{"x", "y", "x,y"} },
			func(q *store.EventQuery) { q.Filter.RunIDs = []string{"x", "y", "x,y"} }},
		{"url", "workflowUrl=https://a.example/x?y",
			func(q *store.RunQuery) { q.Filter.URLs = []string{"https://a.example/x?y"} },
			func(q *store.EventQuery) { q.Filter.WorkflowURLs = []string{"https://a.example/x?y"} }},
		{"label", "label=l&label=m",
			func(q *store.RunQuery) { q.Filter.Labels = []string{"l", "m"} },
			func(q *store.EventQuery) { q.Filter.Labels = []string{"l", "m"} }},
		{"caller under both names", "callerIp=10.0.0.1&callerIP=10.0.0.2",
			func(q *store.RunQuery) { q.Filter.CallerIPs = []string{"10.0.0.1", "10.0.0.2"} },
			func(q *store.EventQuery) { q.Filter.CallerIPs = []string{"10.0.0.1", "10.0.0.2"} }},
		{"flow key", "flowControlKey=k",
			func(q *store.RunQuery) { q.Filter.FlowKeys = []string{"k"} },
			func(q *store.EventQuery) { q.Filter.FlowKeys = []string{"k"} }},
		{"message, by which the reader finds the run", "messageId=" + a.String(),
			func(q *store.RunQuery) { q.Filter.MessageIDs = []posthaste.MessageID{a} }, // runs have none
			func(q *store.EventQuery) { q.Filter.MessageIDs = []posthaste.MessageID{a} }},
		{"states of runs, by which the reader finds the events", "state=RUN_FAILED,run_canceled",
			func(q *store.RunQuery) {
				q.Filter.RunStates = []posthaste.RunState{posthaste.RunFailed, posthaste.RunCancelled}
			},
			func(*store.EventQuery) {}},
		{"state of a step, which a run in any state may have (D 49)", "state=RUN_FAILED&state=STEP_RETRY",
			func(*store.RunQuery) {}, func(*store.EventQuery) {}},
		{"creation", fmt.Sprintf("workflowCreatedAt=%d,%d", ms+5, ms),
			func(q *store.RunQuery) {
				q.Filter.CreatedAts = []time.Time{at(ms + 5), at(ms)}
				q.Low, q.High = posthaste.FirstPosition(at(ms)), posthaste.LastPosition(at(ms+5))
			},
			func(q *store.EventQuery) { q.Low = posthaste.FirstPosition(at(ms)) }},
		{"creation within dates", fmt.Sprintf("workflowCreatedAt=%d&fromDate=%d&toDate=%d", ms, ms-5, ms+5),
			func(q *store.RunQuery) {
				q.Filter.CreatedAts = []time.Time{at(ms)}
				q.Low, q.High = posthaste.FirstPosition(at(ms)), posthaste.LastPosition(at(ms))
			},
			func(q *store.EventQuery) {
				q.Low, q.High = posthaste.FirstPosition(at(ms)), posthaste.LastPosition(at(ms+5))
			}},
		{"named, and nothing else counts", fmt.Sprintf("workflowRuns=x@%d,y@z@%d&state=z&label=l&fromDate=z&messageId=z&count=2", ms, ms+5),
			func(q *store.RunQuery) {
				q.Filter.RunIDs, q.Filter.CreatedAts = []string{"x", "y@z"}, []time.Time{at(ms), at(ms + 5)}
				q.Low, q.High = posthaste.FirstPosition(at(ms)), posthaste.LastPosition(at(ms+5))
				q.Limit = 2
			},
			func(q *store.EventQuery) {
				q.Filter.RunIDs, q.Low, q.Limit = []string{"x", "y@z"}, posthaste.FirstPosition(at(ms)), 2
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q, err := wire.RunLog(parse(t, test.params), ten)
			if err != nil {
				t.Fatalf("RunLog(%s): %v", test.params, err)
			}
			runs := store.RunQuery{High: posthaste.MaxPosition, Limit: 10}
			test.runs(&runs)
			if diff := cmp.Diff(runs, q.Runs()); diff != "" {
				t.Errorf("query for runs differs (-want +got):\n%s", diff)
			}
			events := store.EventQuery{Filter: posthaste.Filter{OfRuns: true}, High: posthaste.MaxPosition, Limit: 10}
			test.events(&events)
			if diff := cmp.Diff(events, q.Events()); diff != "" {
				t.Errorf("query for events differs (-want +got):\n%s", diff)
			}
		})
	}
}

// Contract, workflows 6.3, D 49 and D 51: what the reader applies itself.
func TestRunLogLeftToTheReader(t *testing.T) {
	q, err := wire.RunLog(parse(t, "state=step_retry,RUN_FAILED&state=STEP_FAILED,RUN_FAILED&messageId="+messageID(1).String()), ten)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{q.Filter.RunStates, q.StepStates, q.Filter.MessageIDs}
	want := []any{
		[]posthaste.RunState{posthaste.RunFailed},
		[]posthaste.StepState{posthaste.StepRetry, posthaste.StepFailed},
		[]posthaste.MessageID{messageID(1)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	for text, want := range map[string]int{"": math.MaxInt, "-1": 0, "0": 0, "1": 1, "2147483647": math.MaxInt32} {
		q, err := wire.RunLog(parse(t, "trimBody="+text), ten)
		if err != nil || q.BodyLimit != want {
			t.Errorf("trimBody %q shows %d bytes, %v; want %d", text, q.BodyLimit, err, want)
		}
	}
}

// Contract, workflows 6.3 and D 45: what of a run the queries leave open.
func TestRunLogMatchesRun(t *testing.T) {
	run := posthaste.RunRef{ID: "x", CreatedAt: time.UnixMilli(ms), URL: "https://A.example:8080/p?q=1"}
	tests := []struct {
		params string
		want   bool
	}{
		{"", true},
		{"workflowRunId=y", true}, // it was asked for
		{fmt.Sprintf("workflowCreatedAt=%d", ms), true},
		{fmt.Sprintf("workflowCreatedAt=%d,%d", ms+1, ms), true},
		{fmt.Sprintf("workflowCreatedAt=%d", ms+1), false},
		{fmt.Sprintf("workflowRuns=y@%d,x@%d", ms+1, ms), true},
		{fmt.Sprintf("workflowRuns=y@%d,x@%d", ms, ms+1), false},
		{"host=a.EXAMPLE", true},
		{"host=a.example:8080&path=/p", true},
		{"host=b.example", false},
		{"path=/", false},
		{fmt.Sprintf("workflowRuns=x@%d&host=b.example", ms), true},
	}
	for _, test := range tests {
		q, err := wire.RunLog(parse(t, test.params), ten)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.MatchesRun(run); got != test.want {
			t.Errorf("%q matches: %v, want %v", test.params, got, test.want)
		}
	}
}

// Contract, workflows 6.3 and decisions 5 and 16.
func TestRunLogErrors(t *testing.T) {
	const states = "one of RUN_STARTED, RUN_SUCCESS, RUN_FAILED, RUN_CANCELED, STEP_PROGRESS, STEP_RETRY, STEP_SUCCESS, STEP_FAILED, STEP_CANCELED"
	const named = "a run id, an @ and the Unix time in milliseconds of its creation"
	const trim = "a number of bytes, or -1 for no bodies"
	tests := []struct{ params, want string }{
		{"responseStatus=500", `parameter "responseStatus" is unknown: workflowRuns, workflowRunId, messageId, messageIds, state, workflowUrl, workflowCreatedAt, ` +
			`label, host, path, callerIp, callerIP, flowControlKey, fromDate, toDate, count, cursor, order, groupBy, trimBody are accepted`},
		{"count=0", `count "0" is not a whole number of at least 1`},
		{"order=random", `order "random" is not earliestFirst or latestFirst`},
		{"cursor=!", `cursor "!" is not the cursor of an earlier answer or a Unix time in milliseconds`},
		{"fromDate=x", `fromDate "x" is not a Unix time in milliseconds`},
		{"toDate=x", `toDate "x" is not a Unix time in milliseconds`},
		{"workflowCreatedAt=-1", `workflowCreatedAt "-1" is not a Unix time in milliseconds`},
		{"state=ERROR", `state "ERROR" is not ` + states},
		{"state=RUN_FAILED,STEP", `state "STEP" is not ` + states},
		{"trimBody=-2", `trimBody "-2" is not ` + trim},
		{"trimBody=1.5", `trimBody "1.5" is not ` + trim},
		{"trimBody=1&trimBody=2", `trimBody is given 2 times, it can have one value`},
		{"workflowRuns=x", `workflowRuns "x" is not ` + named},
		{"workflowRuns=@1", `workflowRuns "@1" is not ` + named},
		{"workflowRuns=x@", `workflowRuns "x@" is not ` + named},
		{"workflowRuns=x@1,y@z", `workflowRuns "y@z" is not ` + named},
		{"workflowRuns=x@1&cursor=!", `cursor "!" is not the cursor of an earlier answer or a Unix time in milliseconds`},
	}
	for _, test := range tests {
		t.Run(test.params, func(t *testing.T) {
			_, err := wire.RunLog(parse(t, test.params), ten)
			checkRefused(t, err, test.want)
		})
	}
}

// Contract, workflows 6.3: the one way to group events.
func TestGrouped(t *testing.T) {
	for params, want := range map[string]bool{"": false, "groupBy=": false, "groupBy=workflowRunId": true} {
		if got, err := wire.Grouped(parse(t, params)); got != want || err != nil {
			t.Errorf("Grouped(%s) = %v, %v; want %v", params, got, err, want)
		}
	}
	for params, want := range map[string]string{
		"groupBy=workflowUrl":                   `groupBy "workflowUrl" is not workflowRunId`,
		"groupBy=workflowRunId&groupBy=another": `groupBy is given 2 times, it can have one value`,
	} {
		_, err := wire.Grouped(parse(t, params))
		checkRefused(t, err, want)
	}
}

// FuzzRunLog checks that every parameter string is either a well-formed query or
// refused with CodeInvalid.
func FuzzRunLog(f *testing.F) {
	f.Add("cursor=p1&state=step_retry,RUN_FAILED&count=5&order=earliestFirst&trimBody=-1")
	f.Add("workflowRuns=a@1,b@c@9223372036854775807&fromDate=x&groupBy=workflowRunId")
	f.Add("workflowCreatedAt=9223372036854775807,0&messageId=msg_1&host=%00&path=,")
	f.Fuzz(func(t *testing.T, raw string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		q, err := wire.RunLog(params, ten)
		if err != nil {
			checkCode(t, err)
			return
		}
		runs, events := q.Runs(), q.Events()
		if runs.Low > posthaste.MaxPosition || runs.High > posthaste.MaxPosition || runs.Limit < 1 || runs.Limit > ten.Most {
			t.Fatalf("Runs of %q: %+v", raw, runs)
		}
		if !events.Filter.OfRuns || events.Low > posthaste.MaxPosition || events.High > posthaste.MaxPosition || events.Limit != runs.Limit {
			t.Fatalf("Events of %q: %+v", raw, events)
		}
		if q.BodyLimit < 0 {
			t.Fatalf("%q shows %d bytes", raw, q.BodyLimit)
		}
	})
}
