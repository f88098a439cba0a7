package app

import (
	"context"
	"net/http"

	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/eventlog"
	"posthaste/internal/runlog"
	"posthaste/internal/store"
	"posthaste/internal/workflow"
)

// newAPI plugs the parts into the HTTP surface. What must not be delivered to is
// refused there already where the destination shows it. Answers that would never end
// end with serving.
func newAPI(serving context.Context, options Options, e *engine.Engine, w *workflow.Service, s store.Store, a *access, g gates, ready func() error) http.Handler {
	return api.New(api.Options{
		Engine:         e,
		Workflows:      w,
		Log:            eventlog.New(eventlog.Options{Store: takingTurns{s, g.readers}}),
		RunLog:         runlog.New(runlog.Options{Store: s, Now: clockOf(s)}),
		Keyring:        a.keyring,
		About:          about(options),
		Authenticator:  a.authenticator,
		Ready:          ready,
		MaxBody:        options.MaxBodySize,
		MaxStep:        workflow.MaxStep(int64(options.MaxResponseSize)),
		MaxBatch:       options.MaxBatchSize,
		Requests:       g.requests,
		BodyBytes:      g.bodyBytes,
		PageBytes:      g.pageBytes,
		Readers:        g.readers,
		Streams:        g.streams,
		CheckHost:      options.Destinations.CheckHost,
		TrustedProxies: options.TrustedProxies,
		Serving:        serving,
		Logger:         options.Log,
	})
}
