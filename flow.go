package posthaste

import (
	"cmp"
	"time"
)

// FlowKey is a flow-control key: its limits and what is known about their use.
type FlowKey struct {
	Key       string
	FlowLimit // in force
	CreatedAt time.Time
	UsedAt    time.Time // about when a message or a change last named it: see Use

	// A pinned limit stays as it is; one that is not follows the latest message
	// with this key.
	PinnedParallelism bool
	PinnedRate        bool
	Paused            bool // nothing with this key starts

	WindowStartedAt time.Time // of the present or last window of the rate
	WindowCount     int       // attempts started in it
}

// Follow takes over the limits a message brings, except pinned ones, and reports
// whether that changed anything. A message without the key's rate or parallelism
// lifts that limit.
func (k *FlowKey) Follow(limit FlowLimit) (changed bool) {
	before := k.FlowLimit
	if !k.PinnedParallelism {
		k.Parallelism = limit.Parallelism
	}
	if !k.PinnedRate {
		k.Rate, k.Period = limit.Rate, limit.Period
	}
	return k.FlowLimit != before
}

// useInterval is how exactly UsedAt is kept: to write it down for each message would cost too much.
const useInterval = time.Hour

// Use notes that a message or a change names the key, and reports whether that changed
// anything.
func (k *FlowKey) Use(now time.Time) (changed bool) {
	if !k.UsedAt.IsZero() && now.Sub(k.UsedAt).Abs() < useInterval {
		return false
	}
	k.UsedAt = now
	return true
}

// Idle reports whether the key says nothing that its next message would not say: nothing is
// pinned or paused, nothing has named it since a time, and no attempt counts in a window that
// ended later. Messages that have not ended may need it all the same.
func (k *FlowKey) Idle(since time.Time) bool {
	windowEnd := k.WindowStartedAt.Add(cmp.Or(k.Period, DefaultFlowPeriod))
	return !k.PinnedParallelism && !k.PinnedRate && !k.Paused && k.UsedAt.Before(since) && windowEnd.Before(since)
}

// ResetRate begins a new window that has counted nothing.
func (k *FlowKey) ResetRate(now time.Time) {
	k.WindowStartedAt, k.WindowCount = now, 0
}
