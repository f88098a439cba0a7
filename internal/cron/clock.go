package cron

import (
	"sort"
	"time"
)

// A reading is what the clock of a zone shows, as the time in UTC at which a clock
// in UTC shows the same. Readings follow one another without gaps, so calendar
// arithmetic on them is safe; what is special about a zone happens in the step
// between readings and instants, and is all in this file.
//
// It asks a zone for one thing only, its offset at an instant. The obvious
// alternative, Time.ZoneBounds, ends the last day of a leap year before it has
// begun in zones that follow a rule (golang/go#81583), and a search that trusts it
// does not end.
//
// What is said here about a day relies on this: no zone's clock was ever set twice
// within one, in the time zone database from 1905 on.

const day = 24 * time.Hour

// reading returns what the clock in the time's own zone shows.
func reading(t time.Time) time.Time {
	return t.UTC().Add(offset(t))
}

// offset returns how far the clock in the time's own zone is ahead of UTC.
func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// steadyUntil returns when the clock is set for the first time after an instant,
// but at most a day after it. The instant has whole seconds.
func steadyUntil(from time.Time) time.Time {
	before := offset(from)
	if end := from.Add(day); offset(end) == before {
		return end
	}
	seconds := sort.Search(int(day/time.Second), func(n int) bool {
		return offset(from.Add(time.Duration(n)*time.Second)) != before
	})
	return from.Add(time.Duration(seconds) * time.Second)
}

// shownBefore reports whether the clock shows at t what it already showed once,
// because it was set back within the day before.
func shownBefore(t time.Time) bool {
	earlier := offset(t.Add(-day))
	back := earlier - offset(t)
	return back > 0 && offset(t.Add(-back)) == earlier
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
