package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"posthaste/internal/api"
	"posthaste/internal/runlog"
)

// fakeRunLog is an api.RunLog made of a function, which is told the form.
type fakeRunLog func(form, user string, query *runlog.Query) error

func (f fakeRunLog) Runs(_ context.Context, user string, query *runlog.Query) (runlog.RunPage, error) {
	return runlog.RunPage{More: true, Next: 1}, f("runs", user, query)
}

func (f fakeRunLog) Events(_ context.Context, user string, query *runlog.Query) (runlog.EventPage, error) {
	return runlog.EventPage{More: true, Next: 1}, f("events", user, query)
}

// TestRunLogForms checks which form of the log each way to ask for it has, and that
// the parameters reach it decoded, without what is reserved (contract, workflows 6.3).
func TestRunLogForms(t *testing.T) {
	const others = "state=RUN_FAILED%2CSTEP_FAILED&qstash_token=reader&state=step_retry"
	tests := []struct{ name, path, form string }{
		{"of the REST API and one SDK", "/v2/workflows/logs?", "runs"},
		{"grouped, though it always is", "/v2/workflows/logs?groupBy=workflowRunId&", "runs"},
		{"of another SDK", "/v2/workflows/events?groupBy=workflowRunId&", "runs"},
		{"change by change", "/v2/workflows/events?", "events"},
		{"grouped by nothing", "/v2/workflows/events?groupBy=&", "events"},
		{"with a slash too many", "/v2/workflows/logs/?", "runs"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var form, user string
			var query runlog.Query
			handler := newSurface(t, &published{}, func(o *api.Options) {
				o.RunLog = fakeRunLog(func(f, u string, q *runlog.Query) error {
					form, user, query = f, u, *q
					return nil
				})
			})
			w := do(handler, httptest.NewRequest("GET", test.path+others, nil))
			if want := `{"` + test.form + `":[],"cursor":"p1"}` + "\n"; w.Code != http.StatusOK || w.Body.String() != want {
				t.Errorf("%d %s, want %s", w.Code, w.Body, want)
			}
			if form != test.form || user != "ann" || fmt.Sprint(query.Filter.RunStates, query.StepStates) != "[RUN_FAILED] [STEP_FAILED STEP_RETRY]" {
				t.Errorf("%s asked for %s with %+v", user, form, query)
			}
		})
	}
}

// TestRunLogAccess checks that the log of runs wants a token, and no more than one
// that may only read (contract, workflows 6 and decision 24).
func TestRunLogAccess(t *testing.T) {
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.RunLog = fakeRunLog(func(string, string, *runlog.Query) error { return nil })
	})
	for _, path := range []string{"/v2/workflows/logs", "/v2/workflows/events", "/v2/workflows/events?groupBy=workflowRunId"} {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "stolen": http.StatusUnauthorized, "reader": http.StatusOK} {
			r := httptest.NewRequest("GET", path, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			if got := do(handler, r).Code; got != want {
				t.Errorf("%s with token %q: %d, want %d", path, token, got, want)
			}
		}
	}
}

// TestRunLogFails checks that a failure is answered as one, and not within a page.
func TestRunLogFails(t *testing.T) {
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.RunLog = fakeRunLog(func(string, string, *runlog.Query) error { return errors.New("disk on fire") })
	})
	for _, path := range []string{"/v2/workflows/logs", "/v2/workflows/events"} {
		w := do(handler, newRequest("GET", path, nil))
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "fire") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
