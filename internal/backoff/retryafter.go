package backoff

import (
	"net/http"
	"strings"
	"time"
)

// resetHeaders are the response headers by which a destination asks for a wait,
// the one that decides first.
var resetHeaders = []string{
	"Retry-After",
	"X-RateLimit-Reset",
	"X-RateLimit-Reset-Requests",
	"X-RateLimit-Reset-Tokens",
}

// RetryAfter returns the wait that the response headers of a failed attempt ask
// for, if they do (contract, messages 3). The first header decides that holds a
// number of seconds, a duration such as 6m5s with the units ns us µs ms s m h,
// or an HTTP date. What lies in the past means at once. A header that asks for
// more than 24 hours is passed over; so is the X-RateLimit-Reset of services
// that put Unix seconds there, which is a wait of decades.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	for _, name := range resetHeaders {
		wait, ok := parseReset(header.Get(name), now)
		if ok && wait <= longest {
			return max(wait, 0), true
		}
	}
	return 0, false
}

func parseReset(value string, now time.Time) (time.Duration, bool) {
	if strings.Trim(value, "+-.0123456789") == "" {
		value += "s" // a bare number counts seconds
	}
	if wait, err := time.ParseDuration(value); err == nil {
		return wait, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return date.Sub(now), true
	}
	return 0, false
}
