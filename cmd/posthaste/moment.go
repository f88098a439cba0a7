package main

import (
	"fmt"
	"strconv"
	"time"
)

// moment is a point in time, to the millisecond; the zero value is none.
type moment struct{ time.Time }

// UnmarshalText reads a Unix time in milliseconds, a time as RFC 3339 has it or as tables
// show it, a local time without an offset, or how long ago it is.
func (m *moment) UnmarshalText(text []byte) (err error) {
	m.Time, err = parseMoment(string(text), time.Now())
	return err
}

// leastMillis is the least number that is taken for a Unix time in milliseconds, in
// September 2001: a smaller one is meant otherwise, in seconds or as a span, and would
// select everything.
const leastMillis = 1_000_000_000_000

// layouts are the spellings of a time. One without an offset is local.
var layouts = []string{
	time.RFC3339, tableTime,
	time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly,
}

func parseMoment(text string, now time.Time) (time.Time, error) {
	if ms, err := strconv.ParseUint(text, 10, 63); err == nil {
		if ms < leastMillis {
			return time.Time{}, fmt.Errorf("%q is too small for a Unix time in milliseconds: give one such as %d, or an age with a unit, such as 30m", text, now.UnixMilli())
		}
		return time.UnixMilli(int64(ms)), nil
	}
	for _, layout := range layouts {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if ago, err := parseSpan(text); err == nil {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: give Unix milliseconds, a time such as 2006-01-02T15:04:05Z or 2006-01-02 15:04 (local), or an age such as 15m or 2d", text)
}

// values returns the moment as the API takes it, none if it was not given.
func (m moment) values() []string {
	if m.IsZero() {
		return nil
	}
	return []string{strconv.FormatInt(m.UnixMilli(), 10)}
}
