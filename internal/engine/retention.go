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
	// but never today's and yesterday's: they hold what repeated requests are answered.
	Size int64
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

// trimOnce removes of every user what is behind the horizon, and then what is too much.
// That one cannot be served does not keep the others from it.
func (e *Engine) trimOnce(ctx context.Context) error {
	users, err := e.options.Store.Users(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, user := range users {
		retention, now := e.retentionOf(user), e.options.Now()
		err := e.trimUser(ctx, user, retention.horizon(now))
		if err == nil && retention.Size > 0 {
			err = e.trimSize(ctx, user, retention.Size, now)
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (e *Engine) trimUser(ctx context.Context, user string, horizon store.Horizon) error {
	trimmed, err := e.options.Store.Trim(ctx, user, horizon)
	if !trimmed.Empty() {
		e.options.Logger.Info("retention.trimmed", "user", user,
			"days", trimmed.Days, "dead_letters", trimmed.DeadLetters, "runs", trimmed.Runs)
	}
	return err
}

// trimSize removes the oldest days of a user's log until the rest is within the bound.
// What remains above it is only told of: it is alive, or young, or has a bound of its
// own in time.
func (e *Engine) trimSize(ctx context.Context, user string, most int64, now time.Time) error {
	usage, err := e.options.Store.Usage(ctx, user)
	if err != nil || usage.Bytes() <= most {
		return err
	}
	end, over := fitting(usage, most, now)
	if over > 0 {
		e.options.Logger.Warn("retention.over_size", "user", user, "bytes", most+over, "most", most)
	}
	if end.IsZero() {
		return nil
	}
	return e.trimUser(ctx, user, store.Horizon{Log: end})
}

// fitting returns from when on the log can be kept without being more than the most
// bytes, the zero time if nothing can be removed, and by how much it will be more still.
func fitting(usage store.Usage, most int64, now time.Time) (from time.Time, over int64) {
	const day = 24 * time.Hour
	yesterday := now.UTC().Truncate(day).Add(-day)
	over = usage.Bytes() - most
	for _, d := range usage.Days {
		if over <= 0 || !d.Start.Before(yesterday) {
			break
		}
		from, over = d.Start.Add(day), over-d.Bytes
	}
	return from, max(over, 0)
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
