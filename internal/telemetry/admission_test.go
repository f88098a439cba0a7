package telemetry_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/admission"
	"posthaste/internal/telemetry"
)

// TestEveryGateCounts has requests wait and be refused at each of four gates.
func TestEveryGateCounts(t *testing.T) {
	at := func(waiting int, refused uint64) func() admission.Usage {
		return func() admission.Usage { return admission.Usage{Waiting: waiting, Refused: refused} }
	}
	registry := prometheus.NewRegistry()
	telemetry.RegisterAdmission(registry, at(1, 10), at(2, 20), at(4, 40), at(8, 80))
	got := gather(t, registry)
	for name, want := range map[string]float64{"posthaste_requests_waiting": 15, "posthaste_requests_refused_total": 150} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
}
