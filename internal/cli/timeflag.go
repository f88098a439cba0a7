package cli

import (
	"fmt"
	"strconv"
	"time"
)

// timeFlag is a flag that is a time, in milliseconds; zero if not given.
type timeFlag struct{ time.Time }

// UnmarshalText parses Unix milliseconds, RFC 3339, a time as tables show it, a local time
// without offset, or an age.
func (m *timeFlag) UnmarshalText(text []byte) (err error) {
	m.Time, err = parseTimeFlag(string(text), time.Now())
	return err
}

// minMillis is the smallest number accepted as Unix milliseconds (September 2001). Smaller ones
// are probably seconds or an age, and would select everything.
const minMillis = 1_000_000_000_000

// layouts are the accepted formats. Without offset, a time is local.
var layouts = []string{
	time.RFC3339, tableTime,
	time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly,
}

func parseTimeFlag(text string, now time.Time) (time.Time, error) {
	if ms, err := strconv.ParseUint(text, 10, 63); err == nil {
		if ms < minMillis {
			return time.Time{}, fmt.Errorf("%q is too small for a Unix time in milliseconds: give one such as %d, or an age with a unit, such as 30m", text, now.UnixMilli())
		}
		return time.UnixMilli(int64(ms)), nil
	}
	for _, layout := range layouts {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if at, err := time.ParseInLocation(shortTime, text, now.Location()); err == nil { // of the last twelve months
		if at = at.AddDate(now.Year(), 0, 0); at.After(now.AddDate(0, 0, 1)) {
			at = at.AddDate(-1, 0, 0)
		}
		return at, nil
	}
	if ago, err := parseSpan(text); err == nil {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: give Unix milliseconds, a time such as 2006-01-02T15:04:05Z or 2006-01-02 15:04 (local), or an age such as 15m or 2d", text)
}

// values returns the time as an API parameter, none if not given.
func (m timeFlag) values() []string {
	if m.IsZero() {
		return nil
	}
	return []string{strconv.FormatInt(m.UnixMilli(), 10)}
}
