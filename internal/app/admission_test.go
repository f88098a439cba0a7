package app

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/admission"
)

// TestMemoryIsDivided checks what is set aside under a limit that was set, under that of
// the environment, and without any.
func TestMemoryIsDivided(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	tests := []struct {
		name                string
		set, environment    int64
		memory, connections int64
	}{
		{"a limit", 1 << 30, math.MaxInt64, 1 << 30, 4096},
		{"a limit beats the environment", 1 << 30, 4 << 30, 1 << 30, 4096},
		{"the environment", 0, 512 << 20, 512 << 20, 2048},
		{"none", 0, math.MaxInt64, 2 << 30, 8192},
		{"more than is needed", 1 << 40, math.MaxInt64, 1 << 40, 10_000},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			debug.SetMemoryLimit(test.environment)
			if got := memoryOf(test.set); got != test.memory {
				t.Errorf("memory %d, want %d", got, test.memory)
			}
			if got := connectionsFor(test.set); int64(got) != test.connections {
				t.Errorf("%d connections, want %d", got, test.connections)
			}
		})
	}
}

// TestEveryGateIsCounted has a user who holds its share of each gate ask for more, in vain.
func TestEveryGateIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGates(Options{MaxRequests: 1, MaxConnections: 2, Connections: 1, DatabaseURLs: []string{"postgres://"}})
		registry := prometheus.NewRegistry()
		g.register(registry)
		refused := 0
		for name, gate := range map[string]*admission.Gate{
			"requests": g.requests, "bytes of bodies": g.bodyBytes, "bytes of pages": g.pageBytes, "readers": g.readers, "streams": g.streams,
		} {
			if err := gate.Enter(t.Context(), "ann", math.MaxInt64); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := gate.Enter(t.Context(), "ann", math.MaxInt64); err == nil {
				t.Fatalf("%s: there is room beyond the share", name)
			}
			refused++
			if got := counter(t, registry, "posthaste_requests_refused_total"); got != float64(refused) {
				t.Errorf("%.0f are counted after the %s refused one, want %d", got, name, refused)
			}
		}
	})
}

// counter returns the value of a counter without labels.
func counter(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// TestLimitReachesTheRuntime checks that a limit that was set becomes that of the
// process, and that none leaves the environment's.
func TestLimitReachesTheRuntime(t *testing.T) {
	before := debug.SetMemoryLimit(3 << 30)
	defer debug.SetMemoryLimit(before)
	limitMemory(0)
	if got := debug.SetMemoryLimit(-1); got != 3<<30 {
		t.Errorf("the limit is %d, want it as it was", got)
	}
	limitMemory(1 << 30)
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("the limit is %d, want the one that was set", got)
	}
}
