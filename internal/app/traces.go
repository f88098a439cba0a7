package app

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/telemetry"
)

// startExport lets log lines go to where the environment wants them.
func (a *App) startExport(ctx context.Context, options *Options) (err error) {
	if a.exporter, err = telemetry.NewExporter(ctx, Version, options.Log, os.Getenv); err != nil {
		return err
	}
	a.log = options.Log
	options.Log, err = a.exporter.Logs(ctx, options.Log)
	return err
}

// exportAll lets metrics go there, and the observer make spans.
func (a *App) exportAll(ctx context.Context, observer *telemetry.Observer, registry *prometheus.Registry) error {
	if _, err := a.exporter.Metrics(ctx, telemetry.Shared(registry)); err != nil {
		return err
	}
	traces, err := a.exporter.Traces(ctx)
	if err != nil || traces == nil {
		return err
	}
	a.traces = traces
	observer.Trace(traces)
	return nil
}

// contexts returns who makes the contexts of spans, nil without spans.
func (a *App) contexts() engine.Traces {
	if a.traces == nil {
		return nil
	}
	return a.traces
}

// attemptContext returns the function that adds to a request where it is in a
// trace, nil without spans.
func (a *App) attemptContext() func(*posthaste.Message, int) posthaste.TraceContext {
	if a.traces == nil {
		return nil
	}
	return a.traces.Attempt
}

// exportTime is how long the end of a server waits for its collector.
const exportTime = 5 * time.Second

// finishExport sends what was not sent yet, for a time.
func (a *App) finishExport(ctx context.Context, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	if err := a.exporter.Stop(ctx); err != nil {
		a.log.Warn("export.failed", "error", err)
	}
}
