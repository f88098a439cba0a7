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
// or an HTTP date. A header that says something else decides nothing: a wait
// below zero, which no standard knows and services under load send, and one of
// more than 24 hours, such as the X-RateLimit-Reset of services that put Unix
// seconds there.
//
// A date is compared with the Date of the same response, so that the destination's
// clock may be wrong, and with now if the response has none. One that has passed
// means at once.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	for _, name := range resetHeaders {
		if wait, ok := parseReset(header.Get(name), header.Get("Date"), now); ok && wait <= longest {
			return wait, true
		}
	}
	return 0, false
}

// parseReset returns a wait of at least 0; ok is false if the value has none.
func parseReset(value, sentAt string, now time.Time) (wait time.Duration, ok bool) {
	if strings.Trim(value, "+-.0123456789") == "" {
		value += "s" // a bare number counts seconds
	}
	if wait, err := time.ParseDuration(value); err == nil {
		return wait, wait >= 0
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(sentAt); err == nil {
		now = sent
	}
	return max(date.Sub(now), 0), true
}
