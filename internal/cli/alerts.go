package cli

import (
	"cmp"
	"time"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/dispatch"
	"posthaste/internal/sign"
)

// alertSettings say when an operator is notified that something failed for good.
type alertSettings struct {
	AlertURL        string `name:"alert-url" group:"alerts" placeholder:"URL" help:"URL that receives a signed message when messages or runs enter a dead letter queue. Default: no alerts."`
	AlertSigningKey string `group:"alerts" help:"Key that signs alerts. Default: generated at the first start with an alert URL, and printed once."`
	AlertThreshold  int    `group:"alerts" default:"1" help:"Number of new entries that trigger an alert: 1 to 1000000."`
	AlertQuiet      span   `group:"alerts" default:"15m" help:"Minimum time between two alerts: 1s to 7d."`
}

func (s *alertSettings) check(policy dispatch.Policy) error {
	return cmp.Or(
		s.alerts().Check(policy),
		s.checkKey(),
		within("alert-threshold", count(s.AlertThreshold), 1, 1_000_000),
		within("alert-quiet", s.AlertQuiet, span(time.Second), span(7*day)),
	)
}

func (s *alertSettings) checkKey() error {
	if key := s.AlertSigningKey; key != "" && (sign.KeyPair{Current: key, Next: key}).Check() != nil {
		return posthaste.Invalidf("alert-signing-key is not sig_ followed by 28 letters or digits: generate one with printf sig_; openssl rand -hex 14")
	}
	return nil
}

func (s *alertSettings) alerts() app.Alerts {
	return app.Alerts{
		URL: s.AlertURL, Threshold: s.AlertThreshold, Quiet: time.Duration(s.AlertQuiet), SigningKey: s.AlertSigningKey,
	}
}
