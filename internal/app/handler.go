package app

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/telemetry"
	"posthaste/internal/workflow"
)

// newHandler puts the API, counted, beside the operational endpoints.
func newHandler(serving context.Context, options Options, e *engine.Engine, w *workflow.Service, s store.Store, a *access, registry *prometheus.Registry) http.Handler {
	ready := &readiness{
		dispatching: e.Healthy,
		ping:        s.Ping,
		logger:      options.Log,
		now:         time.Now,
	}
	var handler http.Handler = &routes{
		api:     telemetry.NewRequests(registry).Count(newAPI(serving, options, e, w, s, a, ready.check)),
		ready:   ready,
		metrics: metricsHandler(registry, options.Log),
	}
	if options.CORS {
		handler = permissive(handler)
	}
	return handler
}
