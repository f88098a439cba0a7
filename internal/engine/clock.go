package engine

import (
	"context"
	"slices"
	"time"
)

// longestJump is how far ahead the clock may have been set for retention to believe it.
// Who keeps things for two days at least loses nothing by as much.
const longestJump = wholeDay

// trimClock tells when the wall clock was set ahead: retention would remove what is young.
type trimClock struct {
	wall time.Time // as it was, without the monotonic part
	at   time.Time // when that was
}

// startTrimClock begins with what the log says of the time: as if the server had been off,
// or had had nothing to do, since the end of the day after that of the newest event.
// Events of today do not count: they are what the clock says, right or wrong. A log that
// ends on a day to come is logged.
func (e *Engine) startTrimClock(ctx context.Context, clock *trimClock) error {
	usage, err := e.options.Store.TotalUsage(ctx)
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

// ahead returns by how much the wall clock has gone on beyond the time that has passed
// since it was asked last.
func (c *trimClock) ahead(now time.Time) time.Duration {
	before := *c
	*c = trimClock{wall: now.Round(0), at: time.Now()}
	if before.wall.IsZero() {
		return 0
	}
	return c.wall.Sub(before.wall) - c.at.Sub(before.at)
}
