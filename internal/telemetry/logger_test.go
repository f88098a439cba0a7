package telemetry_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/telemetry"
)

// pieces keeps what is written, one entry for each call.
type pieces struct {
	mu      sync.Mutex
	written []string
}

func (p *pieces) Write(piece []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written = append(p.written, string(piece))
	return len(piece), nil
}

func (p *pieces) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written
}

func TestAttemptLinesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		observer := telemetry.NewObserver(telemetry.NewLogger(&out, slog.LevelInfo, telemetry.FormatText), prometheus.NewRegistry())
		for range 10 {
			observer.AttemptFinished(engine.AttemptReport{Message: message(), State: posthaste.StateDelivered})
		}
		if len(out.all()) > 0 {
			t.Errorf("written at once: %q", out.all())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := out.all(); len(got) != 1 || strings.Count(got[0], "attempt.finished") != 10 {
			t.Errorf("written %q, want ten lines in one piece", got)
		}
	})
}

func TestOtherLinesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		logger := telemetry.NewLogger(&out, slog.LevelInfo, telemetry.FormatText)
		observer := telemetry.NewObserver(logger, prometheus.NewRegistry())
		observer.AttemptFinished(engine.AttemptReport{Message: message(), State: posthaste.StateDelivered})
		logger.With("a", 1).WithGroup("g").Info("server.stopped")
		text := strings.Join(out.all(), "")
		attempt, stopped := strings.Index(text, "attempt.finished"), strings.Index(text, "server.stopped")
		if attempt < 0 || stopped < attempt {
			t.Errorf("written %q, want the attempt and then the stop", text)
		}
	})
}

func TestManyAttemptLinesDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pieces
		observer := telemetry.NewObserver(telemetry.NewLogger(&out, slog.LevelInfo, telemetry.FormatText), prometheus.NewRegistry())
		for range 1000 {
			observer.AttemptFinished(engine.AttemptReport{Message: message(), State: posthaste.StateDelivered})
		}
		if len(out.all()) == 0 {
			t.Error("a thousand lines are kept in memory")
		}
	})
}
