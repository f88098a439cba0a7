package app

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/telemetry"
	"posthaste/internal/workflow"
)

// newHandler puts the API, counted, beside the operational endpoints.
func newHandler(options Options, e *engine.Engine, w *workflow.Service, s store.Store, a *access, registry *prometheus.Registry) http.Handler {
	var handler http.Handler = &routes{
		api: telemetry.NewRequests(registry).Count(newAPI(options, e, w, s, a)),
		ready: &readiness{
			dispatching: e.Healthy,
			ping:        s.Ping,
			logger:      options.Log,
			now:         time.Now,
		},
		metrics: metricsHandler(registry, options.Log),
	}
	if options.CORS {
		handler = permissive(handler)
	}
	return handler
}
