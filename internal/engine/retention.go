package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste/internal/store"
)

// Retention is how long data is kept, and how much per user. Zero: forever, unlimited.
type Retention struct {
	Log         time.Duration // events and ended messages, from their creation
	DeadLetters time.Duration // entries of both DLQs, from their failure
	Runs        time.Duration // workflow runs, from their end

	// Size limits a user's total bytes. Above it, the oldest days of the log are removed, then
	// those of dead letters and ended runs; but never today and yesterday, which deduplication
	// and idempotency need.
	Size int64
}

// idleFlowKeys is how long an unused flow-control key is kept.
const idleFlowKeys = 24 * time.Hour

func (r Retention) horizon(now time.Time) store.Horizon {
	before := func(kept time.Duration) time.Time {
		if kept == 0 {
			return time.Time{}
		}
		return now.Add(-kept)
	}
	return store.Horizon{Log: before(r.Log), DeadLetters: before(r.DeadLetters), Runs: before(r.Runs), Expired: now, FlowKeys: before(idleFlowKeys)}
}

// trimInterval is the time between trims.
const trimInterval = time.Hour

// trim removes old data every trimInterval until the engine stops.
func (e *Engine) trim() {
	var clock trimClock
	for {
		if err := e.trimByClock(e.claiming, &clock); err != nil && e.claiming.Err() == nil {
			e.options.Logger.Log(context.Background(), store.LogLevel(err), "retention.failed", "error", err)
		}
		select {
		case <-time.After(trimInterval):
		case <-e.claiming.Done():
			return
		}
	}
}

// trimByClock is trimOnce, but skips one round after the clock was set ahead, so that it can be
// corrected.
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

// trimOnce trims each user that no other engine has trimmed within the interval. One user's error
// does not stop it.
func (e *Engine) trimOnce(ctx context.Context) error {
	usage, err := e.options.Store.Usage(ctx, "")
	if err != nil {
		return err
	}
	var failures []error
	for _, user := range usage.Users {
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

// trimAll trims a user by age, then by size.
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

func (e *Engine) retentionOf(user string) Retention {
	if own, ok := e.options.UserRetention[user]; ok {
		return own
	}
	return e.options.Retention
}

// longestJump is the largest clock jump that retention accepts. Nobody with at least two days of
// retention loses data by it.
const longestJump = wholeDay

// trimClock detects that the wall clock was set ahead, which would make retention remove recent
// data.
type trimClock struct {
	wall time.Time // without the monotonic part
	at   time.Time // when wall was read
}

// startTrimClock initialises the clock as if the server had last run a day after the newest log
// entry before today. Today's entries do not count: a wrong clock wrote them too. It warns if the
// log ends in the future.
func (e *Engine) startTrimClock(ctx context.Context, clock *trimClock) error {
	usage, err := e.options.Store.Usage(ctx, "")
	if err != nil {
		return err
	}
	today := e.options.Now().UTC().Truncate(wholeDay)
	if n := len(usage.Days); n > 0 && usage.Days[n-1].Start.After(today) {
		e.options.Logger.Warn("clock.behind", "today", today.Format(time.DateOnly), "log_ends", usage.Days[n-1].Start.Format(time.DateOnly),
			"consequence", "the clock is behind the newest log entry, so it is wrong now or was wrong then; until it catches up, new entries get the newest entry's time")
	}
	for _, d := range slices.Backward(usage.Days) {
		if d.Start.Before(today) {
			*clock = trimClock{wall: d.Start.Add(2 * wholeDay), at: time.Now()}
			break
		}
	}
	return nil
}

// ahead returns how much further the wall clock has moved than the time since the last call.
func (c *trimClock) ahead(now time.Time) time.Duration {
	before := *c
	*c = trimClock{wall: now.Round(0), at: time.Now()}
	if before.wall.IsZero() {
		return 0
	}
	return c.wall.Sub(before.wall) - c.at.Sub(before.at)
}
