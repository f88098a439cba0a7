// Package cron owns when a schedule ticks: it reads cron expressions and
// computes the next tick. Everything here is pure: the time is passed in,
// nothing is kept.
//
// # Ticks
//
// An expression describes what a clock on a wall of its time zone shows, to the
// minute. Its ticks are the instants at which the clock turns to such a minute.
//
// Daylight saving time sets that clock, and two rules say what becomes of the
// ticks. They hold for a change of the clock for any other reason too, and
// whether it is by an hour, by half an hour or by a day.
//
//   - Set forward, the clock skips some minutes. What it does not show is no tick,
//     and nothing makes up for it: 30 2 * * * has no tick on that day.
//   - Set back, the clock repeats some minutes. An expression that leaves out hours
//     of the day ticks only the first time, before the change: 30 1 * * * has one
//     tick on that day, and so has */30 1 * * * one at 1:00 and one at 1:30. An
//     expression with all 24 hours ticks every time, so that */15 * * * * goes on
//     through the repeated hour, four times in each hour that passes.
//
// An interval, @every, knows no clock on a wall and no such days.
package cron

import (
	"time"
	// A zone must not be unknown because the machine, or the container around
	// one static file, has no zone database. One that is there comes first.
	_ "time/tzdata"
)

// maxYears bounds the search for a tick. Leap days are at most eight years apart;
// what takes longer is a time that the clock skips year after year.
const maxYears = 10

// margin is more than a zone's clock can ever be set by: the clocks of the world
// are at most 31 hours apart.
const margin = 48 * time.Hour

// Schedule is a parsed cron expression. Parse makes one; it never changes and may
// be used by many goroutines.
type Schedule struct {
	zone    *time.Location
	pattern pattern
	every   time.Duration // beats the pattern if it is not zero
}

// Next returns the first tick after a time, in the zone of the expression. It is
// strictly later than the time and has no seconds on the clock of the zone. The
// result is the zero time when there is no tick within the next ten years.
func (s Schedule) Next(after time.Time) time.Time {
	after = after.In(s.zone)
	if s.every > 0 {
		return after.Truncate(s.every).Add(s.every)
	}
	limit := after.AddDate(maxYears, 0, 0)
	for from := after.Truncate(time.Second).Add(time.Second); from.Before(limit); {
		shown := reading(from)
		next, found := s.pattern.next(shown, limit)
		if !found {
			break
		}
		tick := from.Add(next.Sub(shown)) // unless the clock is set before
		steady := steadyUntil(from)
		switch {
		case tick.Before(steady) && shownBefore(tick) && !s.pattern.everyHour():
			from = tick.Add(time.Minute)
		case tick.Before(steady):
			return tick
		case steady.Before(from.Add(day)): // the clock is set, maybe back to a match
			from = steady
		default:
			from = later(steady, tick.Add(-margin))
		}
	}
	return time.Time{}
}
