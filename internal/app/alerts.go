package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"posthaste"
	"posthaste/internal/alert"
	"posthaste/internal/dispatch"
	"posthaste/internal/engine"
	"posthaste/internal/sign"
)

// Alerts say when an operator is told that something entered a dead letter queue.
type Alerts struct {
	URL       string        // "": never
	Threshold int           // entries it takes
	Quiet     time.Duration // between two alerts
}

// Check returns an error for a URL to which nothing could be delivered.
func (a Alerts) Check(policy dispatch.Policy) error {
	if a.URL == "" {
		return nil
	}
	if err := posthaste.CheckURL("alert-url", a.URL); err != nil {
		return err
	}
	u, err := url.Parse(a.URL)
	if err == nil {
		err = policy.CheckHost(u.Hostname())
	}
	if err != nil {
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

// withAlerts returns the observer, with somebody to be told by messages of a user if
// that is asked for.
func (a *App) withAlerts(options Options, observer engine.Observer) engine.Observer {
	if options.Alerts.URL == "" {
		return observer
	}
	user := alertUser(options)
	a.alerter = alert.New(alert.Options{
		Publish: func(ctx context.Context, body []byte) error {
			_, err := a.engine.Publish(ctx, user, alertPublication(options.Alerts.URL, body))
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
		Labels: []string{alert.Label},
	}}
}

// alertUser returns the user whose messages alerts are, and whose keys sign them: that
// of the first token.
func alertUser(options Options) string {
	if len(options.Tokens) > 0 {
		if first, err := sign.ParseToken(options.Tokens[0]); err == nil {
			return first.UserID
		}
	}
	return DefaultUser
}
