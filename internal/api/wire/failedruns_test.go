package wire_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/store"
)

// Contract, workflows 6.4, 7.1 and D 34, 41 and 53.
func TestFailedRuns(t *testing.T) {
	tests := []struct {
		name   string
		params string
		want   posthaste.Filter
	}{
		{"everything", "", posthaste.Filter{}},
		{"parameters without effect", "count=5&api=x&source=workflow", posthaste.Filter{}},
		{"ids", "dlqIds=" + letter1.String() + "," + letter2.String(), posthaste.Filter{DeadLetterIDs: []posthaste.DeadLetterID{letter1, letter2}}},
		{"an id beside a text that is none", "dlqIds=x&dlqIds=" + letter1.String(), posthaste.Filter{DeadLetterIDs: []posthaste.DeadLetterID{letter1}}},
		{"texts that are no ids", "dlqIds=x", posthaste.Filter{DeadLetterIDs: []posthaste.DeadLetterID{0}}},
		{"URL", "workflowUrl=https://a", posthaste.Filter{URLs: []string{"https://a"}}},
		{"URLs by both names", "workflowUrl=u&url=v", posthaste.Filter{URLs: []string{"u", "v"}}},
		{"run id", "workflowRunId=wfr_a", posthaste.Filter{RunIDPrefixes: []string{"wfr_a"}}},
		{"creation", fmt.Sprintf("workflowCreatedAt=%d,%d", ms, ms+1), posthaste.Filter{CreatedAts: []time.Time{at, at.Add(time.Millisecond)}}},
		{"labels", "label=a,b&label=c", posthaste.Filter{Labels: []string{"a", "b", "a,b", "c"}}},
		{"statuses", "responseStatus=489,0", posthaste.Filter{Statuses: []int{489, 0}}},
		{"callers by both names", "callerIp=1&callerIP=2", posthaste.Filter{CallerIPs: []string{"1", "2"}}},
		{"flow key", "flowControlKey=k", posthaste.Filter{FlowKeys: []string{"k"}}},
		{"callback states by both names", "failureFunctionState=CALLBACK_FAIL&failureCallbackState=callback_success",
			posthaste.Filter{CallbackStates: []posthaste.CallbackState{posthaste.CallbackFailed, posthaste.CallbackSuccess}}},
	}
	for _, test := range tests {
		t.Run("list of "+test.name, func(t *testing.T) {
			got, err := failedRuns(parse(t, test.params))
			if err != nil {
				t.Fatal(err)
			}
			want := store.RunQuery{Filter: test.want, High: posthaste.MaxPosition}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("FailedRunList(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
		t.Run("sweep of "+test.name, func(t *testing.T) {
			got, begun, err := sweepRuns(parse(t, test.params+"&async=true&dryRun=false"))
			if err != nil || begun {
				t.Fatalf("begun %v, error %v", begun, err)
			}
			want := store.RunQuery{Filter: test.want, High: posthaste.MaxPosition, OldestFirst: true}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("FailedRuns(%s) differs (-want +got):\n%s", test.params, diff)
			}
		})
	}
}

// Ids add up, and no other parameter of the body is passed over for one of the query
// (contract, U-80 and workflows D 1).
func TestUnite(t *testing.T) {
	tests := []struct{ name, query, body, want string }{
		{"nothing", "", "", ""},
		{"ids in both", "dlqIds=a&label=x", "dlqIds=b&dlqIds=c&dlqIds[]=d,e", "dlqIds=a&dlqIds=b&dlqIds=c&dlqIds[]=d,e&label=x"},
		{"each in one of them", "toDate=1", "fromDate=2&workflowUrl=u", "fromDate=2&toDate=1&workflowUrl=u"},
		{"the same values in another order", "label=x,y&count=2", "label=y&label=x&count=2", "label=x,y&count=2"},
		{"the same under two names", "callerIp=10.0.0.1", "callerIP=10.0.0.1", "callerIp=10.0.0.1&callerIP=10.0.0.1"},
		{"the same exact values", "label[]=x,y", "label[]=x,y", "label[]=x,y"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.Merge(parse(t, test.query), parse(t, test.body), "dlqIds")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, test.want), got); diff != "" {
				t.Errorf("Merge differs (-want +got):\n%s", diff)
			}
		})
	}
	refused := []struct{ name, query, body, parameter string }{
		{"another filter", "label=x", "label=y", "label"},
		{"a narrower filter", "label=x&label=y", "label=y", "label"},
		{"a filter without a value", "label=", "label=y", "label"},
		{"a list and an exact value", "flowControlKey=eu,prod", "flowControlKey[]=eu,prod", "flowControlKey"},
		{"an exact value and a list", "flowControlKey[]=eu,prod", "flowControlKey=eu,prod", "flowControlKey"},
		{"another filter under its other name", "callerIp=10.0.0.1", "callerIP=10.0.0.2", "callerIP"},
		{"another URL under its other name", "url=https://a", "workflowUrl=https://b", "workflowUrl"},
		{"another date", "fromDate=1", "fromDate=3", "fromDate"},
		{"another count", "count=2", "count=4", "count"},
		{"another cursor", "cursor=", "cursor=p1", "cursor"},
	}
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			_, err := wire.Merge(parse(t, test.query), parse(t, test.body), "dlqIds")
			checkRefused(t, err, test.parameter+" is given in the query and in the body, with different values: give it once")
		})
	}
	t.Run("a body with an empty list", func(t *testing.T) {
		merged, err := wire.Merge(url.Values{}, url.Values{"dlqIds": {}}, "dlqIds")
		if err != nil {
			t.Fatal(err)
		}
		ids, err := wire.IDs(merged, "dlqIds")
		if err != nil || ids == nil || len(ids) > 0 {
			t.Errorf("ids %#v, error %v; want a list of none", ids, err)
		}
	})
}

// TestListCursor checks that a list is gone on with only by its own cursor (contract,
// workflows D 4).
func TestListCursor(t *testing.T) {
	ids := []string{"a", "b", "c"}
	for n := range len(ids) + 1 {
		cursor := wire.ListCursor(ids[:n])
		done, begun, err := wire.ListDone(url.Values{"cursor": {cursor}}, ids)
		if done != n || !begun || err != nil {
			t.Errorf("cursor %q of %d ids continues at %d, %v, %v", cursor, n, done, begun, err)
		}
	}
	if done, begun, err := wire.ListDone(url.Values{"cursor": {""}}, ids); done != 0 || begun || err != nil {
		t.Errorf("without a cursor: %d, %v, %v", done, begun, err)
	}
	two := wire.ListCursor(ids[:2])
	for name, list := range map[string][]string{"another": {"a", "x", "c"}, "a shorter": {"a"}, "an empty": {}, "one in another order": {"b", "a", "c"}} {
		if _, _, err := wire.ListDone(url.Values{"cursor": {two}}, list); err == nil {
			t.Errorf("the cursor of a list continues %s list", name)
		}
	}
}

// FuzzFailedRuns checks that every parameter string is either a well-formed query or
// refused with CodeInvalid, and that no filter is lost, which would widen what is
// restarted.
func FuzzFailedRuns(f *testing.F) {
	f.Add("workflowUrl=u&workflowRunId=wfr_&workflowCreatedAt=1&label=a&callerIp=1&flowControlKey=k", "a,b")
	f.Add("fromDate=1&toDate=9223372036854775807&failureFunctionState=callback_fail&responseStatus=0", "")
	f.Add("cursor=p1-p2&dlqIds=1700000000000-1&order=latestFirst&dryRun=true&async=false", "1-1")
	f.Add("cursor=i1-ca978112&dlqIds=a", "a")
	f.Add("workflowCreatedAt=%0A&dlqIds=%C2%A0,", "")
	f.Fuzz(func(t *testing.T, raw, ids string) {
		params, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		query, _, err := sweepRuns(params)
		switch {
		case err != nil:
			checkCode(t, err)
		case query.High > posthaste.MaxPosition:
			t.Fatalf("FailedRuns(%q) = %+v", raw, query)
		case params.Has("workflowRunId") != (len(query.Filter.RunIDPrefixes) > 0), params.Has("dlqIds") != (len(query.Filter.DeadLetterIDs) > 0),
			params.Has("label") != (len(query.Filter.Labels) > 0), params.Has("workflowCreatedAt") != (len(query.Filter.CreatedAts) > 0):
			t.Fatalf("FailedRuns(%q) lost a filter: %+v", raw, query)
		}
		if done, _, err := wire.ListDone(params, []string{ids}); err != nil {
			checkCode(t, err)
		} else if done > 1 {
			t.Fatalf("ListDone(%q) of one id = %d", raw, done)
		}
	})
}

// Contract, workflows D 17: a run without an answer has a status all the same.
func TestFailedRunStatusIsNone(t *testing.T) {
	const want = `responseStatus "none" is not an HTTP status, 503 for no answer or 504 for a timeout`
	_, err := failedRuns(parse(t, "responseStatus=none"))
	checkRefused(t, err, want)
	_, _, err = sweepRuns(parse(t, "responseStatus=none"))
	checkRefused(t, err, want)
}
