package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/store"
	"posthaste/internal/telemetry"
)

// usage is a store that always keeps the same.
type usage struct {
	usage store.Usage
	err   error
}

func (u usage) Usage(context.Context, string) (store.Usage, error) { return u.usage, u.err }

func TestUsageMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	telemetry.RegisterUsage(registry, usage{usage: store.Usage{
		Log:         store.KindUsage{Entries: 5, Oldest: time.UnixMilli(1500), Bytes: 50},
		DeadLetters: store.KindUsage{Entries: 4, Oldest: time.Unix(2, 0), Bytes: 40},
		FailedRuns:  store.KindUsage{Entries: 3, Oldest: time.Unix(3, 0), Bytes: 30},
	}})
	want := map[string]float64{
		"posthaste_kept_entries{kind=log}":                           5,
		"posthaste_kept_entries{kind=dead_letters}":                  4,
		"posthaste_kept_entries{kind=failed_runs}":                   3,
		"posthaste_kept_entries{kind=runs}":                          0,
		"posthaste_kept_bytes{kind=log}":                             50,
		"posthaste_kept_bytes{kind=dead_letters}":                    40,
		"posthaste_kept_bytes{kind=failed_runs}":                     30,
		"posthaste_kept_bytes{kind=runs}":                            0,
		"posthaste_kept_oldest_timestamp_seconds{kind=log}":          1.5,
		"posthaste_kept_oldest_timestamp_seconds{kind=dead_letters}": 2,
		"posthaste_kept_oldest_timestamp_seconds{kind=failed_runs}":  3,
	}
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestUsageMetricsShowFailure(t *testing.T) {
	registry := prometheus.NewRegistry()
	broken := errors.New("disk on fire")
	telemetry.RegisterUsage(registry, usage{err: broken})
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), broken.Error()) {
		t.Errorf("gather error = %v, want one with %q", err, broken)
	}
}

// During an outage, which is logged once, a scrape has no numbers, and no error.
func TestKeptDuringAnOutage(t *testing.T) {
	registry := prometheus.NewRegistry()
	telemetry.RegisterUsage(registry, usage{err: fmt.Errorf("%w: away", store.ErrUnavailable)})
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("Gather = %v, %v; want nothing", families, err)
	}
}
