package telemetry_test

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/telemetry"
)

// TestFailedMetrics checks that what enters a dead letter queue is counted by what it is,
// and nothing else is.
func TestFailedMetrics(t *testing.T) {
	of := func(user string, run *posthaste.RunLink) *posthaste.Message {
		m := message()
		m.User, m.Run = user, run
		return m
	}
	link := func(callType posthaste.CallType) *posthaste.RunLink { return &posthaste.RunLink{CallType: callType} }
	answered := link(posthaste.CallRequest)
	answered.Features = posthaste.FeatureNoDelete
	tests := map[string]struct {
		message *posthaste.Message
		state   posthaste.State
		want    string // the kind that is counted; "" for none
	}{
		"a message":                         {of("ada", nil), posthaste.StateFailed, "message"},
		"an alert":                          {of(posthaste.ServerUser, nil), posthaste.StateFailed, "alert"},
		"a step":                            {of("ada", link(posthaste.CallStep)), posthaste.StateFailed, "run"},
		"a call whose run fails with it":    {of("ada", link(posthaste.CallRequest)), posthaste.StateFailed, "run"},
		"a call whose run gets the failure": {of("ada", answered), posthaste.StateFailed, ""},
		"a failure callback":                {of("ada", link(posthaste.CallFailure)), posthaste.StateFailed, ""},
		"what is tried again":               {of("ada", nil), posthaste.StateRetry, ""},
		"what is delivered":                 {of("ada", nil), posthaste.StateDelivered, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			observer := telemetry.NewObserver(slog.New(slog.DiscardHandler), registry)
			observer.AttemptStarted()
			observer.AttemptFinished(engine.AttemptReport{Message: test.message, State: test.state})
			want, got := map[string]float64{"message": 0, "run": 0, "alert": 0}, map[string]float64{}
			if test.want != "" {
				want[test.want] = 1
			}
			all := gather(t, registry)
			for kind := range want {
				got[kind] = all["posthaste_failed_total{kind="+kind+"}"]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("failed (-want +got):\n%s", diff)
			}
			if all["posthaste_runs_total{state=RUN_FAILED}"] != want["run"] {
				t.Errorf("%v runs failed, want %v", all["posthaste_runs_total{state=RUN_FAILED}"], want["run"])
			}
		})
	}
}
