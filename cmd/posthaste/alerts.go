package main

import (
	"time"

	"posthaste/internal/app"
	"posthaste/internal/dispatch"
)

// alertSettings say when somebody is told that something failed for good.
type alertSettings struct {
	AlertURL       string `name:"alert-url" group:"alerts" placeholder:"URL" help:"Where a signed message goes when something enters a dead letter queue. Nowhere unless given."`
	AlertThreshold int    `group:"alerts" default:"1" help:"Entries it takes: 1 to 1000000."`
	AlertQuiet     span   `group:"alerts" default:"15m" help:"Time between two alerts: 1s to 7d."`
}

// Bounds of alerts.
const (
	maxAlertThreshold = 1_000_000
	maxAlertQuiet     = 7 * day
)

func (s *alertSettings) check(policy dispatch.Policy) error {
	return firstError(
		s.alerts().Check(policy),
		within("alert-threshold", count(s.AlertThreshold), 1, maxAlertThreshold),
		within("alert-quiet", s.AlertQuiet, span(time.Second), span(maxAlertQuiet)),
	)
}

func (s *alertSettings) alerts() app.Alerts {
	return app.Alerts{URL: s.AlertURL, Threshold: s.AlertThreshold, Quiet: time.Duration(s.AlertQuiet)}
}
