package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/telemetry"
)

var start = time.UnixMilli(1_700_000_000_000).UTC()

// message is one whose every text would be a leak if a line showed it, but for
// those a line is meant to show.
func message() *posthaste.Message {
	return &posthaste.Message{
		ID:        posthaste.MessageID{15: 1},
		User:      "ada",
		URL:       "https://name:leak@Example.com:8443/leak/path?token=leak",
		Body:      []byte("leak"),
		CreatedAt: start,
		NotBefore: start,
		Queue:     "orders",
		Settings:  posthaste.Settings{Header: http.Header{"X-Key": {"leak"}}},
	}
}

func TestCanonicalLine(t *testing.T) {
	always := map[string]any{
		"msg": "attempt.finished", "message_id": message().ID.String(), "user": "ada",
		"host": "example.com:8443", "queue": "orders",
	}
	tests := map[string]struct {
		report engine.AttemptReport
		want   map[string]any
	}{
		"delivered": {
			engine.AttemptReport{
				Outcome: posthaste.Outcome{Class: posthaste.OutcomeDelivered, Response: &posthaste.Response{Status: 204, Body: []byte("leak")}, Duration: 12500 * time.Microsecond},
				State:   posthaste.StateDelivered,
			},
			map[string]any{"level": "INFO", "outcome": "delivered", "state": "DELIVERED", "status": 204.0, "retried": 0.0, "duration_ms": 12.5},
		},
		"retried": {
			engine.AttemptReport{
				Retried: 1,
				Outcome: posthaste.Outcome{Class: posthaste.OutcomeRetryable, Error: "no response within 30s", Duration: 30 * time.Second},
				State:   posthaste.StateRetry,
				NextAt:  start.Add(time.Minute),
			},
			map[string]any{
				"level": "INFO", "outcome": "retryable", "state": "RETRY", "retried": 1.0, "duration_ms": 30000.0,
				"error": "no response within 30s", "next_at": start.Add(time.Minute).Format(time.RFC3339),
			},
		},
		"given up": {
			engine.AttemptReport{Outcome: posthaste.Outcome{Class: posthaste.OutcomePermanent, Error: "489"}, State: posthaste.StateFailed},
			map[string]any{"level": "WARN", "outcome": "permanent", "state": "FAILED", "retried": 0.0, "duration_ms": 0.0, "error": "489"},
		},
		"abandoned": {
			engine.AttemptReport{State: posthaste.StateActive},
			map[string]any{"level": "INFO", "outcome": "abandoned", "state": "ACTIVE", "retried": 0.0, "duration_ms": 0.0},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger := slog.New(slog.NewJSONHandler(&out, nil))
			observer := telemetry.NewObserver(logger, prometheus.NewRegistry())
			test.report.Message, test.report.StartedAt = message(), start
			observer.AttemptFinished(test.report)

			if strings.Contains(out.String(), "leak") {
				t.Errorf("line shows what it must not: %s", out.String())
			}
			var got map[string]any
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatalf("line %q: %v", out.String(), err)
			}
			delete(got, "time")
			maps.Copy(test.want, always)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLevelSilencesLines(t *testing.T) {
	var out bytes.Buffer
	observer := telemetry.NewObserver(telemetry.NewLogger(&out, slog.LevelWarn, telemetry.FormatText), prometheus.NewRegistry())
	observer.AttemptFinished(engine.AttemptReport{Message: message(), State: posthaste.StateDelivered})
	if out.Len() > 0 {
		t.Errorf("a delivery is logged at level warn: %s", out.String())
	}
	observer.AttemptFinished(engine.AttemptReport{Message: message(), State: posthaste.StateFailed})
	if !strings.Contains(out.String(), "attempt.finished") {
		t.Errorf("a failed message is not logged at level warn: %q", out.String())
	}
}

func TestAttemptMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	observer := telemetry.NewObserver(slog.New(slog.DiscardHandler), registry)
	attempt := func(retried int, class posthaste.OutcomeClass, state posthaste.State, startedAfter, duration time.Duration) {
		observer.AttemptStarted()
		observer.AttemptFinished(engine.AttemptReport{
			Message:   message(),
			Retried:   retried,
			StartedAt: start.Add(startedAfter),
			Outcome:   posthaste.Outcome{Class: class, Duration: duration},
			State:     state,
		})
	}
	observer.Accepted(3)
	attempt(0, posthaste.OutcomeRetryable, posthaste.StateRetry, 2*time.Second, time.Second)
	attempt(1, posthaste.OutcomeDelivered, posthaste.StateDelivered, 10*time.Second, 2*time.Second)
	attempt(0, posthaste.OutcomePermanent, posthaste.StateFailed, -time.Second, time.Second)
	attempt(0, posthaste.OutcomeRetryable, posthaste.StateActive, time.Hour, time.Hour)
	observer.AttemptStarted()

	want := map[string]float64{
		"posthaste_messages_accepted_total":           3,
		`posthaste_attempts_total{outcome=retryable}`: 1,
		`posthaste_attempts_total{outcome=delivered}`: 1,
		`posthaste_attempts_total{outcome=permanent}`: 1,
		`posthaste_attempts_total{outcome=abandoned}`: 1,
		"posthaste_attempts_in_flight":                1,
		"posthaste_attempt_seconds_count":             3,
		"posthaste_attempt_seconds_sum":               4,
		"posthaste_attempt_wait_seconds_count":        2, // first attempts only
		"posthaste_attempt_wait_seconds_sum":          2, // a clock that stepped back adds nothing
		"posthaste_delivery_seconds_count":            1,
		"posthaste_delivery_seconds_sum":              12,
	}
	got := gather(t, registry)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %v, want %v", name, got[name], value)
		}
	}
}

func TestCommitMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	observer := telemetry.NewObserver(slog.New(slog.DiscardHandler), registry)
	observer.Committed(5, time.Second, 2*time.Second)
	observer.Committed(1, time.Second, 3*time.Second)
	got := gather(t, registry)
	for name, want := range map[string]float64{
		"posthaste_store_operations_total":     6,
		"posthaste_store_commit_seconds_count": 2,
		"posthaste_store_commit_seconds_sum":   2,
		"posthaste_store_sync_seconds_sum":     5,
	} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
}

func TestStoreMetrics(t *testing.T) {
	now := start.Add(time.Minute)
	tests := map[string]struct {
		stats store.Stats
		want  map[string]float64 // of those that are not 0
	}{
		"idle": {
			store.Stats{},
			nil,
		},
		"behind": {
			store.Stats{OldestDueAt: start, Lanes: 7, DiskBytes: 4096},
			map[string]float64{"posthaste_due_backlog_age_seconds": 60, "posthaste_lanes": 7, "posthaste_store_bytes": 4096},
		},
		"paused": {
			store.Stats{OldestPausedDueAt: start, Lanes: 1},
			map[string]float64{"posthaste_paused_backlog_age_seconds": 60, "posthaste_lanes": 1},
		},
		"waiting": {
			store.Stats{Waiting: map[store.Waiting]int{{State: posthaste.StateCreated, Hold: store.HoldRate}: 3, {State: posthaste.StateRetry, Hold: store.HoldBackoff}: 2}},
			map[string]float64{
				`posthaste_messages_waiting{reason=rate,state=CREATED}`:  3,
				`posthaste_messages_waiting{reason=backoff,state=RETRY}`: 2,
			},
		},
		"queues of which one is named": {
			store.Stats{Queues: []store.QueueLag{
				{User: "ann", Queue: "third", DueAt: start.Add(20 * time.Second)},
				{User: "ann", Queue: "first", DueAt: start},
				{User: "ann", Queue: "second", DueAt: start.Add(10 * time.Second)},
			}},
			map[string]float64{`posthaste_queue_lag_seconds{queue=first,user=ann}`: 60, `posthaste_queue_lag_seconds{queue=,user=}`: 50},
		},
		"clock stepped back": {
			store.Stats{OldestDueAt: now.Add(time.Hour), Lanes: 1},
			map[string]float64{"posthaste_lanes": 1},
		},
		"read and written": {
			store.Stats{WrittenBytes: 1, LogReads: store.LogReads{IndexBlocks: 2, Entries: 3, Returned: 4}},
			map[string]float64{
				"posthaste_store_written_bytes_total":   1,
				"posthaste_log_index_blocks_read_total": 2,
				"posthaste_log_entries_read_total":      3,
				"posthaste_log_entries_returned_total":  4,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			telemetry.RegisterStore(registry, stats{stats: test.stats}, func() time.Time { return now }, 1)
			got := gather(t, registry)
			for name, value := range test.want {
				if got[name] != value {
					t.Errorf("%s = %v, want %v", name, got[name], value)
				}
			}
			for name, value := range got {
				if _, wanted := test.want[name]; !wanted && value != 0 {
					t.Errorf("%s = %v, want 0", name, value)
				}
			}
		})
	}
}

func TestStoreMetricsShowFailure(t *testing.T) {
	registry := prometheus.NewRegistry()
	broken := errors.New("disk on fire")
	telemetry.RegisterStore(registry, stats{err: broken}, time.Now, 0)
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), broken.Error()) {
		t.Errorf("gather error = %v, want one with %q", err, broken)
	}
}

// stats is a store that always answers the same.
type stats struct {
	stats store.Stats
	err   error
}

func (s stats) Stats(context.Context, time.Time) (store.Stats, error) { return s.stats, s.err }

// gather returns the value of every metric by name and labels; a histogram is
// its _count and its _sum.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			name := family.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(slices.Sorted(slices.Values(labels)), ",") + "}"
			}
			switch {
			case metric.GetHistogram() != nil:
				values[name+"_count"] = float64(metric.GetHistogram().GetSampleCount())
				values[name+"_sum"] = metric.GetHistogram().GetSampleSum()
			case metric.GetGauge() != nil:
				values[name] = metric.GetGauge().GetValue()
			default:
				values[name] = metric.GetCounter().GetValue()
			}
		}
	}
	return values
}
