package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// field is the grammar of one field of an expression:
//
//	field = item { "," item }
//	item  = range [ "/" step ]
//	range = "*" | "?" | value [ "-" value ]
//
// A single value with a step stands for the range from it to the last value.
type field struct {
	name        string
	first, last int
	highest     int      // accepted as a value; more than last where a value has two numbers
	names       []string // of the values from first on
}

// fields are those of an expression, in its order.
var fields = [...]field{
	{name: "minute", first: 0, last: 59, highest: 59},
	{name: "hour", first: 0, last: 23, highest: 23},
	{name: "day of month", first: 1, last: 31, highest: 31},
	{name: "month", first: 1, last: 12, highest: 12, names: monthNames},
	{name: "day of week", first: 0, last: 6, highest: sundayAgain, names: weekdayNames},
}

var (
	monthNames   = strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")
	weekdayNames = strings.Fields("SUN MON TUE WED THU FRI SAT")
)

// sundayAgain is a second number for Sunday, which is 0.
const sundayAgain = 7

// maxStep bounds a step. One that is longer than its range is no mistake: */60 is
// what some write for every 60 minutes.
const maxStep = 9999

// parse returns the values of the field. They are restricted unless one of the
// items is a wildcard.
func (f field) parse(text string) (values set, restricted bool, err error) {
	restricted = true
	for item := range strings.SplitSeq(text, ",") {
		some, wildcard, err := f.item(item)
		if err != nil {
			return 0, false, err
		}
		values |= some
		restricted = restricted && !wildcard
	}
	return values, restricted, nil
}

// item returns the values of one item. It is a wildcard if it has all values and
// says so: as a * without a step, or with a step of 1.
func (f field) item(text string) (values set, wildcard bool, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	low, high, err := f.span(span, stepped)
	if err != nil {
		return 0, false, err
	}
	step := 1
	if stepped {
		if step, err = f.step(stepText); err != nil {
			return 0, false, err
		}
	}
	for value := low; value <= high; value += step {
		values |= 1 << value
	}
	return values, isWildcard(span) && step == 1, nil
}

// isWildcard knows the * and, from other kinds of cron, the ? for "any".
func isWildcard(text string) bool { return text == "*" || text == "?" }

func (f field) step(text string) (int, error) {
	step, ok := number(text, 1, maxStep)
	if !ok {
		return 0, fmt.Errorf("%s step %.40q is not a number from 1 to %d", f.name, text, maxStep)
	}
	return step, nil
}

// span reads a range. If it is open, a single value goes on to the last one.
func (f field) span(text string, open bool) (low, high int, err error) {
	if isWildcard(text) {
		return f.first, f.last, nil
	}
	lowText, highText, isRange := strings.Cut(text, "-")
	if low, err = f.value(lowText); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		if high, err = f.value(highText); high == 0 && low > 0 && f.highest == sundayAgain {
			high = sundayAgain // Sunday at the end of a range ends the week, as in FRI-SUN
		}
	case open:
		high = max(low, f.last)
	default:
		high = low
	}
	if err == nil && high < low {
		err = fmt.Errorf("%s range %.40q runs backwards, a range goes from a lower value to a higher one", f.name, text)
	}
	return low, high, err
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.first + i, nil
		}
	}
	value, ok := number(text, f.first, f.highest)
	if !ok {
		return 0, fmt.Errorf("%s %.40q is not %s", f.name, text, f.accepted())
	}
	return value, nil
}

// accepted says what a value may be.
func (f field) accepted() string {
	numbers := fmt.Sprintf("a number from %d to %d", f.first, f.highest)
	if f.names == nil {
		return numbers
	}
	return fmt.Sprintf("%s or a name from %s to %s", numbers, f.names[0], f.names[len(f.names)-1])
}

// number reads decimal digits, and no sign, as a number in [low, high].
func number(text string, low, high int) (n int, ok bool) {
	wide, err := strconv.ParseUint(text, 10, 16)
	n = int(wide)
	return n, err == nil && low <= n && n <= high
}
