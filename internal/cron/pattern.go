package cron

import (
	"math/bits"
	"time"
)

// pattern says which readings of a clock match the five fields of an expression.
type pattern struct {
	minutes, hours, days, months, weekdays set

	// eitherDay is set if both day fields restrict: then a day matches if it is
	// in one of them. Otherwise the one that does not restrict has every day.
	eitherDay bool
}

// set holds numbers from 0 to 63, a bit for each.
type set uint64

func (s set) has(n int) bool { return s>>n&1 != 0 }

const allHours set = 1<<24 - 1

// everyHour reports whether no hour of the day is left out.
func (p pattern) everyHour() bool { return p.hours == allHours }

// next returns the first whole minute that matches and is in [from, until), both
// of them readings, and false if there is none.
func (p pattern) next(from, until time.Time) (time.Time, bool) {
	for t := from.Add(time.Minute - 1).Truncate(time.Minute); t.Before(until); {
		switch {
		case !p.months.has(int(t.Month())):
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !p.hasDay(t):
			t = t.Truncate(day).Add(day)
		case !p.hours.has(t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !p.minutes.has(t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

func (p pattern) hasDay(t time.Time) bool {
	inMonth, inWeek := p.days.has(t.Day()), p.weekdays.has(int(t.Weekday()))
	if p.eitherDay {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}

// longestMonths holds the days of each month in a leap year, January at 1.
var longestMonths = [...]int{1: 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// hasDate reports whether any year has a day that matches.
func (p pattern) hasDate() bool {
	if p.eitherDay {
		return true
	}
	earliest := bits.TrailingZeros64(uint64(p.days))
	for month, length := range longestMonths {
		if p.months.has(month) && earliest <= length {
			return true
		}
	}
	return false
}
