package posthaste

import "time"

// FlowKey is a flow-control key: its limits and what is known about their use.
type FlowKey struct {
	Key       string
	FlowLimit // in force
	CreatedAt time.Time

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

// ResetRate begins a new window that has counted nothing.
func (k *FlowKey) ResetRate(now time.Time) {
	k.WindowStartedAt, k.WindowCount = now, 0
}
