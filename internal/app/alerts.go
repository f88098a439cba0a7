package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"posthaste"
	"posthaste/internal/alert"
	"posthaste/internal/dispatch"
	"posthaste/internal/engine"
)

// Alerts say when an operator is notified of entries of a dead letter queue.
type Alerts struct {
	URL       string        // "": never
	Threshold int           // entries it takes
	Quiet     time.Duration // between two alerts

	// SigningKey signs the messages. Without one, a key is made at the first start with
	// a URL and kept in the store.
	SigningKey string
}

// Check returns an error for a URL to which nothing could be delivered.
func (a Alerts) Check(policy dispatch.Policy) error {
	if a.URL == "" {
		return nil
	}
	u, err := posthaste.ParseURL("alert-url", a.URL, a.URL)
	if err != nil {
		return err
	}
	if err := policy.CheckHost(u.Hostname()); err != nil {
		return fmt.Errorf("alert-url: %w", err)
	}
	return nil
}

// alerting is an observer that also counts what failed for good.
type alerting struct {
	engine.Observer
	alerter *alert.Alerter
}

// AttemptFinished implements engine.Observer.
func (o alerting) AttemptFinished(r engine.AttemptReport) {
	o.Observer.AttemptFinished(r)
	o.alerter.AttemptFinished(r)
}

// watching is an observer that also calls Options.Attempted.
type watching struct {
	engine.Observer
	attempted func(Attempt)
}

// AttemptFinished implements engine.Observer.
func (o watching) AttemptFinished(r engine.AttemptReport) {
	o.Observer.AttemptFinished(r)
	o.attempted(r)
}

// withAlerts returns the observer, with somebody to be told by messages of the server if
// that is asked for.
func (a *App) withAlerts(options Options, observer engine.Observer) engine.Observer {
	if options.Attempted != nil {
		observer = watching{observer, options.Attempted}
	}
	if options.Alerts.URL == "" {
		return observer
	}
	a.alerter = alert.New(alert.Options{
		Publish: func(ctx context.Context, body []byte) error {
			_, err := a.engine.Publish(ctx, posthaste.ServerUser, alertPublication(options.Alerts.URL, body))
			return err
		},
		Threshold: options.Alerts.Threshold,
		Quiet:     options.Alerts.Quiet,
		Logger:    options.Log,
	})
	return alerting{observer, a.alerter}
}

func alertPublication(destination string, body []byte) engine.Publication {
	return engine.Publication{Destination: destination, Body: body, Settings: posthaste.Settings{
		Header: http.Header{"Content-Type": {"application/json"}},
	}}
}
