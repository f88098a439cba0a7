// Package backoff owns the timing of retries: how long a message waits between
// a failed attempt and the next one, for every caller. The destination may
// ask for a wait, the publisher may have given an expression, and else the
// default grows exponentially. The package also reads the durations of control
// headers.
//
// Everything here is pure: clocks and headers are passed in, nothing is kept.
package backoff

import (
	"math"
	"time"

	"posthaste"
)

// longest bounds every wait this package computes.
const longest = 24 * time.Hour

// Next returns the wait between a failed attempt and the next one, after
// retried earlier retries: it is 0 when the first attempt has failed.
// The first of these rules that gives an answer applies (contract, messages 3):
// what the destination asked for, the message's Retry-Delay expression, Default.
//
// The expression is parsed each time: that takes a microsecond or two,
// less than the store spends on the same settlement, and a cache would have
// to be bounded, shared and explained.
func Next(m *posthaste.Message, retried int, outcome posthaste.Outcome) time.Duration {
	if outcome.HasRetryAfter {
		return outcome.RetryAfter
	}
	if m.RetryDelay == "" {
		return Default(retried + 1)
	}
	expression, err := Parse(m.RetryDelay)
	if err != nil { // only a message accepted under other rules
		return Default(retried + 1)
	}
	if delay, ok := expression.Delay(retried); ok {
		return delay
	}
	return Default(retried + 1)
}

// Default returns the wait before a retry, numbered from 1, that nobody has
// asked to be otherwise: e^(2.5·retry) seconds, at most 24 hours.
func Default(retry int) time.Duration {
	seconds := min(math.Exp(2.5*float64(retry)), longest.Seconds())
	return time.Duration(seconds * float64(time.Second))
}
