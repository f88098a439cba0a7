package cron

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"posthaste"
)

const maxText = 256 // bytes

// Bounds on the interval of @every.
const (
	shortestInterval = time.Minute
	longestInterval  = 365 * day
)

// shortcuts are names for whole expressions.
var shortcuts = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// Parse reads a cron expression of at most 256 bytes (contract, messages 6.3). Its
// parts are separated by blanks, and its names may have any letter case:
//
//   - Five fields: minute 0-59, hour 0-23, day of month 1-31, month 1-12 or
//     JAN-DEC, day of week 0-7 or SUN-SAT, where 0 and 7 are Sunday, who may begin
//     a range or end it: SUN-TUE, FRI-SUN. A field is a list of values, ranges and
//     steps, such as 1,10-20,*/15; 5/15 means from 5 on. A ? is a *. If both day
//     fields are restricted, a day needs to be in only one of them; a field with
//     a * among its items is not restricted, but one with a step, */2, is.
//   - Or @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually.
//   - Or @every with an interval in whole minutes from 1m to 8760h, such as 90m or
//     1h30m. Its ticks do not depend on when the schedule was made: they are
//     counted from the beginning of the calendar, a Monday at midnight UTC. So 4h
//     ticks at midnight UTC too, and 168h on Mondays.
//
// In front of it may be a time zone, as CRON_TZ=Europe/Paris or TZ=Europe/Paris,
// spelled as in the IANA database. Without one it is UTC.
//
// An expression that can never tick, such as 0 0 30 2 *, is an error. Errors have
// CodeInvalid; the sentence starts with the expression, so that a caller can put
// a parameter's name in front.
func Parse(text string) (Schedule, error) {
	if len(text) > maxText {
		return Schedule{}, posthaste.Invalidf("%.40q… is %d bytes long, a cron expression has at most %d",
			text, len(text), maxText)
	}
	schedule, err := parseWords(strings.Fields(text))
	if err != nil {
		return Schedule{}, posthaste.Invalidf("%q is not a cron expression: %v", text, err)
	}
	return schedule, nil
}

func parseWords(words []string) (Schedule, error) {
	zone, words, err := cutZone(words)
	if err != nil {
		return Schedule{}, err
	}
	if len(words) == 2 && strings.EqualFold(words[0], "@every") {
		every, err := parseInterval(words[1])
		return Schedule{zone: zone, every: every}, err
	}
	if len(words) == 1 && strings.HasPrefix(words[0], "@") {
		if words, err = expand(words[0]); err != nil {
			return Schedule{}, err
		}
	}
	pattern, err := parsePattern(words)
	return Schedule{zone: zone, pattern: pattern}, err
}

// cutZone takes the zone off the front.
func cutZone(words []string) (*time.Location, []string, error) {
	if len(words) == 0 {
		return time.UTC, words, nil
	}
	name, found := strings.CutPrefix(words[0], "CRON_TZ=")
	if !found {
		name, found = strings.CutPrefix(words[0], "TZ=")
	}
	if !found {
		return time.UTC, words, nil
	}
	zone, err := time.LoadLocation(name)
	// To LoadLocation these two mean UTC and the machine's own zone, and neither
	// is a name: a schedule ticks at the same time on every machine.
	if err != nil || name == "" || name == "Local" {
		return nil, nil, fmt.Errorf("%.40q is not a time zone of the IANA database, such as Europe/Paris", name)
	}
	return zone, words[1:], nil
}

func parseInterval(text string) (time.Duration, error) {
	interval, err := time.ParseDuration(text)
	if err != nil || interval < shortestInterval || interval > longestInterval || interval%time.Minute != 0 {
		return 0, fmt.Errorf("interval %.40q is not a duration in whole minutes from 1m to 8760h, such as 90m or 1h30m", text)
	}
	return interval, nil
}

// expand returns the words that a shortcut stands for.
func expand(name string) ([]string, error) {
	if fields, known := shortcuts[strings.ToLower(name)]; known {
		return strings.Fields(fields), nil
	}
	return nil, fmt.Errorf("%.40q is not one of %s, or @every with an interval",
		name, strings.Join(slices.Sorted(maps.Keys(shortcuts)), " "))
}

func parsePattern(words []string) (pattern, error) {
	if len(words) != len(fields) {
		return pattern{}, fmt.Errorf("it has %d fields, not the 5 for minute, hour, day of month, month and day of week",
			len(words))
	}
	var values [len(fields)]set
	var restricted [len(fields)]bool
	for i, field := range fields {
		var err error
		if values[i], restricted[i], err = field.parse(words[i]); err != nil {
			return pattern{}, err
		}
	}
	p := pattern{
		minutes: values[0], hours: values[1], days: values[2], months: values[3], weekdays: oneSunday(values[4]),
		eitherDay: restricted[2] && restricted[4],
	}
	if !p.hasDate() {
		return pattern{}, errors.New("it would never tick: none of its months has such a day")
	}
	return p, nil
}

// oneSunday moves the second number for Sunday to the first.
func oneSunday(weekdays set) set {
	return weekdays&^(1<<sundayAgain) | weekdays>>sundayAgain&1
}
