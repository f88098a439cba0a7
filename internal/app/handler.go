package app

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/engine"
	"posthaste/internal/store"
	"posthaste/internal/telemetry"
)

// newHandler puts the API, counted, beside the operational endpoints.
func newHandler(options Options, e *engine.Engine, s store.Store, a *access, registry *prometheus.Registry) http.Handler {
	var handler http.Handler = &routes{
		api: telemetry.NewRequests(registry).Count(newAPI(options, e, s, a)),
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
