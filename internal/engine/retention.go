package engine

import (
	"context"
	"errors"
	"time"

	"posthaste/internal/store"
)

// Retention says how long things are kept after they were of use, and how much may be
// kept of a user. Zero means for ever, and any amount.
type Retention struct {
	Log         time.Duration // events, and messages that have ended, from their beginning
	DeadLetters time.Duration // entries of both DLQs, from their failure
	Runs        time.Duration // workflow runs, from their end

	// Size bounds all of it together, in bytes. Above it the oldest days of the log go,
	// and if that is not enough those of dead letters and of runs that have ended; but
	// never today's and yesterday's, which hold what repeated requests are answered.
	Size int64
}

// idleFlowKeys is how long a flow-control key stays that nothing uses.
const idleFlowKeys = 24 * time.Hour

func (r Retention) horizon(now time.Time) store.Horizon {
	before := func(kept time.Duration) time.Time {
		if kept == 0 {
			return time.Time{}
		}
		return now.Add(-kept)
	}
	return store.Horizon{Log: before(r.Log), DeadLetters: before(r.DeadLetters), Runs: before(r.Runs), FlowKeys: before(idleFlowKeys)}
}

// trimInterval is how often what is behind the horizon is removed.
const trimInterval = time.Hour

// trim removes what was kept long enough, at once and then again and again until the
// engine stops.
func (e *Engine) trim() {
	var clock trimClock
	for {
		if err := e.trimByClock(e.claiming, &clock); err != nil && e.claiming.Err() == nil {
			e.options.Logger.Error("retention.failed", "error", err)
		}
		select {
		case <-time.After(trimInterval):
		case <-e.claiming.Done():
			return
		}
	}
}

// trimByClock is trimOnce, unless the clock was set ahead: then it leaves out one turn,
// for somebody to set it right.
func (e *Engine) trimByClock(ctx context.Context, clock *trimClock) error {
	if clock.at.IsZero() {
		if err := e.startTrimClock(ctx, clock); err != nil {
			return err
		}
	}
	if ahead := clock.ahead(e.options.Now()); ahead > longestJump {
		e.options.Logger.Warn("retention.skipped", "clock_ahead", ahead, "again_in", trimInterval)
		return nil
	}
	return e.trimOnce(ctx)
}

// trimOnce trims what is kept of every user whom no other engine has trimmed within the
// interval. That one cannot be served does not keep the others from it.
func (e *Engine) trimOnce(ctx context.Context) error {
	users, err := e.options.Store.Users(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, user := range users {
		mine, err := e.options.Store.TryLease(ctx, "retention of "+user, trimInterval)
		if err == nil && mine {
			err = e.trimAll(ctx, user)
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// trimAll removes of a user what is behind the horizon, and then what is too much.
func (e *Engine) trimAll(ctx context.Context, user string) error {
	retention, now := e.retentionOf(user), e.options.Now()
	err := e.trimUser(ctx, user, retention.horizon(now))
	if err == nil && retention.Size > 0 {
		err = e.trimSize(ctx, user, retention.Size, now)
	}
	return err
}

func (e *Engine) trimUser(ctx context.Context, user string, horizon store.Horizon) error {
	trimmed, err := e.options.Store.Trim(ctx, user, horizon)
	if !trimmed.Empty() {
		e.options.Logger.Info("retention.trimmed", "user", user,
			"days", trimmed.Days, "dead_letters", trimmed.DeadLetters, "runs", trimmed.Runs, "flow_control_keys", trimmed.FlowKeys)
	}
	return err
}

// Usage returns how much is kept of a user.
func (e *Engine) Usage(ctx context.Context, user string) (store.Usage, error) {
	return e.options.Store.Usage(ctx, user)
}

func (e *Engine) retentionOf(user string) Retention {
	if own, ok := e.options.UserRetention[user]; ok {
		return own
	}
	return e.options.Retention
}
