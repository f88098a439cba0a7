package flow

import (
	"time"

	"posthaste"
)

// Window counts the attempts started under a rate. It has a fixed length, the
// limit's period, and begins with the first attempt after the one before it
// ended; so two windows never overlap. The zero value is a window that has ended.
type Window struct {
	StartedAt time.Time
	Count     int
}

// WindowOf returns the window of a flow-control key.
func WindowOf(key *posthaste.FlowKey) Window {
	return Window{StartedAt: key.WindowStartedAt, Count: key.WindowCount}
}

// Admit reports whether one more attempt may start at now under a flow-control key, and returns
// the key's window with that attempt counted. inFlight is the number of attempts in flight under
// the key. If the attempt may not start, retryAt is when it may: the zero time if that depends on
// an event.
func Admit(key *posthaste.FlowKey, inFlight int, now time.Time) (next Window, retryAt time.Time, ok bool) {
	window := WindowOf(key)
	if key.Paused || key.Parallelism > 0 && inFlight >= key.Parallelism {
		return window, time.Time{}, false
	}
	return window.Admit(key.FlowLimit, now)
}

// Admit reports whether one more attempt may start at now, and returns the window
// with that attempt counted. If it may not, retryAt is when it may.
//
// A window that begins in the future was written before the clock stepped back. It
// counts as ended: otherwise it could stop a key for a long time.
func (w Window) Admit(limit posthaste.FlowLimit, now time.Time) (next Window, retryAt time.Time, ok bool) {
	if limit.Rate <= 0 {
		return w, time.Time{}, true
	}
	end := w.StartedAt.Add(Period(limit))
	if w.StartedAt.After(now) || !now.Before(end) {
		return Window{StartedAt: now, Count: 1}, time.Time{}, true
	}
	if w.Count >= limit.Rate {
		return w, end, false
	}
	w.Count++
	return w, time.Time{}, true
}

// Current returns the window to show at now. One that has ended counts nothing and
// begins now. One that begins later is returned unchanged: an attempt may have begun
// it since the caller looked at the clock.
func (w Window) Current(limit posthaste.FlowLimit, now time.Time) Window {
	if !now.Before(w.StartedAt.Add(Period(limit))) {
		return Window{StartedAt: now}
	}
	return w
}

// Period returns the length of the limit's window.
func Period(limit posthaste.FlowLimit) time.Duration {
	if limit.Period <= 0 {
		return posthaste.DefaultFlowPeriod
	}
	return limit.Period
}
