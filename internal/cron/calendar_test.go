package cron_test

import (
	"testing"
	"time"
)

// This file is the package's definition of a tick in its plainest form: look at the
// clock every minute, and remember what it has shown. It shares nothing with the
// package, so that the two can be compared.

// wall is what a clock and a calendar on the wall show.
type wall struct {
	year    int
	month   time.Month
	day     int
	weekday time.Weekday
	hour    int
	minute  int
}

func wallAt(at time.Time, zone *time.Location) wall {
	local := at.In(zone)
	year, month, day := local.Date()
	return wall{year, month, day, local.Weekday(), local.Hour(), local.Minute()}
}

// glance is one look at the wall.
type glance struct {
	at       time.Time
	shows    wall
	repeated bool // it has shown the same before
}

// watch looks at a zone's clock every minute of [from, until).
func watch(zone *time.Location, from, until time.Time) []glance {
	shown := make(map[wall]bool)
	var glances []glance
	for at := from; at.Before(until); at = at.Add(time.Minute) {
		shows := wallAt(at, zone)
		glances = append(glances, glance{at, shows, shown[shows]})
		shown[shows] = true
	}
	return glances
}

// rule is an expression as its author means it.
type rule struct {
	text      string
	everyHour bool
	matches   func(wall) bool
}

func (r rule) ticksAt(g glance) bool {
	return r.matches(g.shows) && (!g.repeated || r.everyHour)
}

// edges returns the hours of [from, until) at the end of which a zone's clock has
// been set.
func edges(zone *time.Location, from, until time.Time) []time.Time {
	var found []time.Time
	_, before := from.In(zone).Zone()
	for at := from; at.Before(until); at = at.Add(time.Hour) {
		if _, offset := at.In(zone).Zone(); offset != before {
			found, before = append(found, at), offset
		}
	}
	return found
}

func loadZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func newYear(year int) time.Time {
	return time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
}
