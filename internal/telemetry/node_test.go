package telemetry_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/telemetry"
)

func TestNodeIsInLinesAndMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	node := telemetry.NewNode(registry)
	var out bytes.Buffer
	logger := node.Label(telemetry.NewLogger(&out, slog.LevelInfo, telemetry.FormatText)).With("part", "x")
	logger.Info("before")
	node.Joined(17)
	logger.Info("joined")
	node.Joined(23)
	logger.Info("again")
	for _, want := range []string{"msg=before part=x\n", "msg=joined part=x node=17\n", "msg=again part=x node=23\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line has %q:\n%s", want, out.String())
		}
	}
	node.Clock(-1500 * time.Millisecond)
	if got := gather(t, registry)["posthaste_node_clock_ahead_seconds"]; got != -1.5 {
		t.Errorf("posthaste_node_clock_ahead_seconds = %g, want -1.5", got)
	}
	if got := gather(t, registry)["posthaste_node"]; got != 23 {
		t.Errorf("posthaste_node = %g, want 23", got)
	}
}
