package workflow_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/workflow"
)

// TestOverridesStay restarts and resumes a run with overrides, and then once more
// without: every delivery to its workflow has them, whatever its SDK says of its own
// (contract 4.2; workflows 7.4). SDKs without the feature say it all with every step.
func TestOverridesStay(t *testing.T) {
	original := func(s *posthaste.Settings) {
		retries := 0
		s.Retries, s.RetryDelay = &retries, "1000"
		s.FlowControl = posthaste.FlowControl{Key: "original", FlowLimit: posthaste.FlowLimit{Parallelism: 9}}
		s.Labels = []string{"original"}
		s.Header.Set("Upstash-Label", "original")
		s.FailureCallback = failureCallback("http://app/original")
	}
	for name, sdk := range map[string]sdk{"TypeScript": sdkTypeScript, "Python": sdkPython} {
		for _, resume := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resume %v", name, resume), func(t *testing.T) {
				if name == "Python" {
					sdk.repeats = original
				}
				broken := true
				inWorld(t, setup{sdk: sdk, fault: func(v visit) fault {
					if broken && v.what == "a" {
						return refuse
					}
					return noFault
				}, flows: map[string]flow{"wf": {
					{run("a")}, {run("b"), sleep("s", time.Second)}, {wait("w", "e", time.Second)},
					{call("c", "http://third/ok", 0)}, {run("d")},
				}}}, func(w *world) {
					w.trigger("wf", "r", func(item *workflow.Item) { original(&item.Settings) })
					w.pass(time.Minute)
					changed := newOverrides()
					again := w.restartWith("r", resume, changed)
					w.pass(time.Hour)
					w.wantState(again, posthaste.RunFailed)
					broken = false
					last := w.restart(again, resume)
					w.pass(time.Hour)
					w.wantState(last, posthaste.RunSuccess)
					w.wantOverridden(changed, again, last)
				})
			})
		}
	}
}

// newOverrides returns one of each kind. Of flow control it is one half.
func newOverrides() posthaste.Settings {
	retries := 2
	return posthaste.Settings{
		Retries: &retries, RetryDelay: "2000", Labels: []string{"changed"},
		FlowControl:     posthaste.FlowControl{FlowLimit: posthaste.FlowLimit{Parallelism: 3}},
		FailureCallback: &posthaste.Callback{URL: "http://app/changed"},
	}
}

// restartWith is restart with overrides.
func (w *world) restartWith(id string, resume bool, overrides posthaste.Settings) string {
	w.t.Helper()
	done, _, err := w.Restart(w.t.Context(), user, workflow.RestartRequest{
		IDs: []posthaste.DeadLetterID{w.run(id).DeadLetterID}, Resume: resume, Overrides: posthaste.Overrides{Settings: overrides},
	})
	if err != nil || len(done.Results) != 1 || done.Results[0].Err != nil {
		w.t.Fatalf("restart %s: %+v, %v", id, done, err)
	}
	return done.Results[0].Run.ID
}

// wantOverridden requires every delivery to the workflow of some runs to be with the
// overrides, and the failure of the first to be told where they say.
func (w *world) wantOverridden(o posthaste.Settings, ids ...string) {
	w.t.Helper()
	o.FlowControl.Key = "original"
	kinds := map[posthaste.CallType]int{}
	for _, v := range w.visits {
		m := v.message
		if !slices.Contains(ids, m.Run.ID) || m.Run.CallType == posthaste.CallRequest {
			continue
		}
		kinds[m.Run.CallType]++
		if m.Run.CallType == posthaste.CallFailure {
			if m.URL != o.FailureCallback.URL {
				w.t.Errorf("the failure callback was sent to %s, want %s", m.URL, o.FailureCallback.URL)
			}
			continue
		}
		want := posthaste.Settings{
			Retries: o.Retries, RetryDelay: o.RetryDelay, Labels: o.Labels, FlowControl: o.FlowControl,
			Header: http.Header{"Upstash-Label": o.Labels},
		}
		got := posthaste.Settings{
			Retries: m.Retries, RetryDelay: m.RetryDelay, Labels: m.Labels, FlowControl: m.FlowControl,
			Header: http.Header{"Upstash-Label": m.Header["Upstash-Label"]},
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			w.t.Errorf("%s (-want +got):\n%s", v, diff)
		}
	}
	for _, kind := range []posthaste.CallType{posthaste.CallStep, posthaste.CallAnswer, posthaste.CallFailure} {
		if kinds[kind] == 0 {
			w.t.Errorf("nothing of kind %s was delivered", kind)
		}
	}
}
