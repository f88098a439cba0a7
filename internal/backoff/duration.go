package backoff

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"posthaste"
)

var durationUnits = map[byte]time.Duration{
	's': time.Second,
	'm': time.Minute,
	'h': time.Hour,
	'd': 24 * time.Hour,
}

// ParseDuration reads a duration as control headers spell it (contract,
// messages 1.2): numbers with the units s, m, h and d in a row, such as 90s,
// 1.5s or 1d10h30m, or one bare number of seconds. It is never negative. The
// error has CodeInvalid; its sentence starts with the text, so that a caller
// can put a parameter's name in front.
func ParseDuration(text string) (time.Duration, error) {
	nanoseconds, ok := sumParts(text)
	switch {
	case !ok:
		return 0, posthaste.Invalidf("%.100q is not a duration: give numbers with the units s, m, h or d, "+
			"such as 90s or 1d10h30m, or a number of seconds", text)
	case nanoseconds >= math.MaxInt64:
		return 0, posthaste.Invalidf("%.100q is longer than 292 years", text)
	}
	return time.Duration(math.Round(nanoseconds)), nil
}

// FormatDuration writes a duration in units of days to seconds, without those that are zero: "366d",
// "1d12h", "2h", "1m30s".
func FormatDuration(d time.Duration) string {
	days, rest := d/(24*time.Hour), d%(24*time.Hour)
	text := rest.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	switch {
	case days == 0:
		return text
	case rest == 0:
		return fmt.Sprintf("%dd", days)
	default:
		return fmt.Sprintf("%dd%s", days, text)
	}
}

// sumParts adds up in floating point: exact for whole seconds up to a century,
// and unlike integers it cannot wrap around on the way to a sum too large.
func sumParts(text string) (nanoseconds float64, ok bool) {
	if number, _ := cutNumber(text); number == text {
		text += "s"
	}
	for text != "" {
		number, rest := cutNumber(text)
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || rest == "" {
			return 0, false
		}
		unit, known := durationUnits[rest[0]]
		if !known {
			return 0, false
		}
		nanoseconds += value * float64(unit)
		text = rest[1:]
	}
	return nanoseconds, true
}

func cutNumber(text string) (number, rest string) {
	rest = strings.TrimLeft(text, ".0123456789")
	return text[:len(text)-len(rest)], rest
}
