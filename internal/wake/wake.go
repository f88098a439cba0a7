// Package wake says when a loop that rests is to wake.
package wake

import "time"

// In returns how long it is from now until then, at most most, and never nothing: a
// timer that has run out before it is waited for crashes the race detector in tests
// with a fake clock (golang/go#78156).
func In(then, now time.Time, most time.Duration) time.Duration {
	return min(max(time.Nanosecond, then.Sub(now)), most)
}
