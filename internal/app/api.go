package app

import (
	"net/http"

	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// newAPI plugs the parts into the HTTP surface. What must not be delivered to is
// refused there already where the destination shows it.
func newAPI(options Options, e *engine.Engine, w *workflow.Service, s store.Store, a *access) http.Handler {
	return api.New(api.Options{
		Engine:         e,
		Workflows:      w,
		Log:            eventlog.New(eventlog.Options{Store: s}),
		Keyring:        a.keyring,
		Authenticator:  a.authenticator,
		MaxBody:        options.MaxBodySize,
		MaxBatch:       options.MaxBatchSize,
		CheckHost:      options.Destinations.CheckHost,
		TrustedProxies: options.TrustedProxies,
		Logger:         options.Log,
	})
}
