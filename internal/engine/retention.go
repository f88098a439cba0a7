package engine

import (
	"context"
	"errors"
	"time"

	"posthaste/internal/store"
)

// Retention says how long things are kept after they were of use. Zero means for
// ever.
type Retention struct {
	Log         time.Duration // events, and messages that have ended, from their beginning
	DeadLetters time.Duration // entries of both DLQs, from their failure
	Runs        time.Duration // workflow runs, from their end
}

func (r Retention) horizon(now time.Time) store.Horizon {
	before := func(kept time.Duration) time.Time {
		if kept == 0 {
			return time.Time{}
		}
		return now.Add(-kept)
	}
	return store.Horizon{Log: before(r.Log), DeadLetters: before(r.DeadLetters), Runs: before(r.Runs)}
}

// trimInterval is how often what is behind the horizon is removed.
const trimInterval = time.Hour

// trim removes what was kept long enough, at once and then again and again until the
// engine stops.
func (e *Engine) trim() {
	for {
		if err := e.trimOnce(e.claiming); err != nil && e.claiming.Err() == nil {
			e.options.Logger.Error("retention.failed", "error", err)
		}
		select {
		case <-time.After(trimInterval):
		case <-e.claiming.Done():
			return
		}
	}
}

// trimOnce removes of every user what is behind the horizon. That one cannot be
// served does not keep the others from it.
func (e *Engine) trimOnce(ctx context.Context) error {
	users, err := e.options.Store.Users(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, user := range users {
		trimmed, err := e.options.Store.Trim(ctx, user, e.retentionOf(user).horizon(e.options.Now()))
		if err != nil {
			failures = append(failures, err)
		}
		if !trimmed.Empty() {
			e.options.Logger.Info("retention.trimmed", "user", user,
				"days", trimmed.Days, "dead_letters", trimmed.DeadLetters, "runs", trimmed.Runs)
		}
	}
	return errors.Join(failures...)
}

func (e *Engine) retentionOf(user string) Retention {
	if own, ok := e.options.UserRetention[user]; ok {
		return own
	}
	return e.options.Retention
}
