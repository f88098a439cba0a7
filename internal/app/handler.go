package app

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/console"
	"posthaste/internal/engine"
	"posthaste/internal/site"
	"posthaste/internal/store"
	"posthaste/internal/telemetry"
	"posthaste/internal/workflow"
)

// newHandler puts the API, counted, beside the operational endpoints.
func newHandler(serving context.Context, options Options, e *engine.Engine, w *workflow.Service, s store.Store, a *access, g gates, registry *prometheus.Registry, stopping func() bool) http.Handler {
	ready := &readiness{
		stopping:    stopping,
		dispatching: e.Healthy,
		ping:        s.Ping,
		room:        roomOf(s),
		logger:      options.Log,
		now:         time.Now,
	}
	g.register(registry)
	var handler http.Handler = &routes{
		api:     telemetry.NewRequests(registry).Count(newAPI(serving, options, e, w, s, a, g, ready.check)),
		ready:   ready,
		metrics: metricsHandler(registry, options.Log),
		console: console.New(),
		docs:    site.Handler(),
	}
	if options.CORS {
		handler = permissive(handler)
	}
	return handler
}
