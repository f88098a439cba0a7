package cron_test

import (
	"testing"
	"time"

	"posthaste/internal/cron"
)

// daylightRules are expressions whose ticks fall on and around the hours at which
// clocks are set: midnight, one, two and three, and the last hour of a day.
var daylightRules = []rule{
	{"* * * * *", true, func(wall) bool { return true }},
	{"*/15 * * * *", true, func(w wall) bool { return w.minute%15 == 0 }},
	{"0 * * * *", true, func(w wall) bool { return w.minute == 0 }},
	{"30 0-12,13-23 * * *", true, func(w wall) bool { return w.minute == 30 }},
	{"45 * * * SAT", true, func(w wall) bool { return w.minute == 45 && w.weekday == time.Saturday }},
	{"0 0 * * *", false, func(w wall) bool { return w.hour == 0 && w.minute == 0 }},
	{"30 0 * * *", false, func(w wall) bool { return w.hour == 0 && w.minute == 30 }},
	{"30 1 * * *", false, func(w wall) bool { return w.hour == 1 && w.minute == 30 }},
	{"30 2 * * *", false, func(w wall) bool { return w.hour == 2 && w.minute == 30 }},
	{"0 3 * * 7", false, func(w wall) bool { return w.hour == 3 && w.minute == 0 && w.weekday == time.Sunday }},
	{"* 1 * * *", false, func(w wall) bool { return w.hour == 1 }},
	{"*/20 2,23 * * *", false, func(w wall) bool { return (w.hour == 2 || w.hour == 23) && w.minute%20 == 0 }},
	{"0 */2 * * *", false, func(w wall) bool { return w.hour%2 == 0 && w.minute == 0 }},
	{"15,45 0-22 * * *", false, func(w wall) bool { return w.hour < 23 && (w.minute == 15 || w.minute == 45) }},
	{"59 23 * * FRI-7", false, func(w wall) bool {
		return w.hour == 23 && w.minute == 59 && (w.weekday >= time.Friday || w.weekday == time.Sunday)
	}},
	{"5 2 31 * SUN", false, func(w wall) bool {
		return w.hour == 2 && w.minute == 5 && (w.day == 31 || w.weekday == time.Sunday)
	}},
}

// daylightZones are the zones of the suite, each with three years in which its
// clock is set at least the given number of times.
var daylightZones = []struct {
	name  string
	from  int // the first of the three years
	edges int
}{
	{"Africa/Cairo", 2024, 6},
	{"Africa/Casablanca", 2024, 6},
	{"America/Havana", 2024, 6},
	{"America/New_York", 2024, 6},
	{"America/Santiago", 2024, 6},
	{"America/St_Johns", 2024, 6},
	{"Antarctica/Troll", 2024, 6}, // by two hours
	{"Asia/Beirut", 2024, 6},
	{"Asia/Jerusalem", 2024, 6},
	{"Atlantic/Azores", 2024, 6},
	{"Australia/Lord_Howe", 2024, 6}, // by half an hour
	{"Europe/Berlin", 2024, 6},
	{"Europe/Dublin", 2024, 6},
	{"Europe/London", 2024, 6},
	{"Pacific/Auckland", 2024, 6},
	{"Pacific/Chatham", 2024, 6}, // at a quarter to three
	{"America/Sao_Paulo", 2017, 5},
	{"Asia/Pyongyang", 2015, 1}, // by half an hour, for good
	{"Asia/Tehran", 2020, 6},
	{"Europe/Istanbul", 2014, 5},
	{"Pacific/Apia", 2010, 5}, // a whole day is skipped
}

// TestDaylightSaving compares Next with the definition of a tick, in the thirty
// hours before and after each time that a clock is set (contract, U-61).
func TestDaylightSaving(t *testing.T) {
	for _, years := range daylightZones {
		t.Run(years.name, func(t *testing.T) {
			t.Parallel()
			zone := loadZone(t, years.name)
			found := edges(zone, newYear(years.from), newYear(years.from+3))
			if len(found) < years.edges {
				t.Fatalf("the clock is set %d times in three years, want at least %d", len(found), years.edges)
			}
			for _, edge := range found {
				glances := watch(zone, edge.Add(-30*time.Hour), edge.Add(30*time.Hour))
				for _, rule := range daylightRules {
					schedule := mustParse(t, "CRON_TZ="+years.name+" "+rule.text)
					checkEveryTick(t, rule, schedule, glances)
					checkFromAnywhere(t, rule, schedule, glances)
				}
			}
		})
	}
}

// checkEveryTick walks from tick to tick.
func checkEveryTick(t *testing.T, rule rule, schedule cron.Schedule, glances []glance) {
	t.Helper()
	next := schedule.Next(glances[0].at.Add(-time.Nanosecond))
	for _, g := range glances {
		if ticks := next.Equal(g.at); ticks != rule.ticksAt(g) {
			t.Fatalf("%s: next tick at %v, at %v the clock shows %+v", rule.text, next, g.at.UTC(), g.shows)
		}
		if next.Equal(g.at) {
			next = schedule.Next(g.at)
		}
	}
}

// checkFromAnywhere asks for the next tick at times that are none, within some
// hours of the edge in the middle.
func checkFromAnywhere(t *testing.T, rule rule, schedule cron.Schedule, glances []glance) {
	t.Helper()
	const near = 4 * 60
	var want time.Time
	for i := len(glances) - 1; i >= len(glances)/2-near; i-- {
		// The stride meets every minute of the hour.
		if asked := glances[i].at.Add(30 * time.Second); i%7 == 0 && i < len(glances)/2+near && !want.IsZero() {
			if got := schedule.Next(asked); !got.Equal(want) {
				t.Fatalf("%s: next tick after %v at %v, want %v", rule.text, asked, got, want)
			}
		}
		if rule.ticksAt(glances[i]) {
			want = glances[i].at
		}
	}
}
