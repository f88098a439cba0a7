package app

import (
	"context"
	"os"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/telemetry"
)

// startTraces lets the observer make spans if the environment names a collector.
func (a *App) startTraces(ctx context.Context, options Options, observer *telemetry.Observer) error {
	traces, err := telemetry.NewTraces(ctx, Version, options.Log, os.Getenv)
	if err != nil || traces == nil {
		return err
	}
	a.traces = traces
	observer.Trace(traces)
	options.Log.Info("traces.exported")
	return nil
}

// contexts returns who makes the contexts of spans, nil without spans.
func (a *App) contexts() engine.Traces {
	if a.traces == nil {
		return nil
	}
	return a.traces
}

// attemptContext returns the function that tells destinations where they are in a
// trace, nil without spans.
func (a *App) attemptContext() func(*posthaste.Message, int) posthaste.TraceContext {
	if a.traces == nil {
		return nil
	}
	return a.traces.Attempt
}

// finishTraces exports the last spans.
func (a *App) finishTraces(ctx context.Context) {
	if a.traces == nil {
		return
	}
	if err := a.traces.Stop(ctx); err != nil {
		a.log.Warn("traces.failed", "error", err)
	}
}
