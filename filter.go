package posthaste

import (
	"cmp"
	"time"
)

// Filter selects messages, dead letters or runs by the fields that they have. Fields are joined
// by AND, the values of one field by OR; an empty field selects all.
type Filter struct {
	MessageIDs     []MessageID
	DeadLetterIDs  []DeadLetterID
	RunIDPrefixes  []string
	URLs           []string // of runs: of their workflows, like URLPrefixes, Hosts and Paths
	URLPrefixes    []string
	URLGroups      []string
	ScheduleIDs    []string
	Queues         []string
	Labels         []string
	Hosts          []string // with or without port, any letter case
	Paths          []string // without query
	CallerIPs      []string
	FlowKeys       []string
	Statuses       []int // of the response that failed it; 0: no response
	CallbackStates []CallbackState
	CreatedAts     []time.Time // of runs

	// From and Until limit when it was created or, of what is in a DLQ, when it failed. Both are
	// inclusive; 0: no limit.
	From, Until Position
}

// Positions returns the range of positions from From until Until.
func (f *Filter) Positions() (low, high Position) { return f.From, cmp.Or(f.Until, MaxPosition) }

// Overrides replace settings of what is retried, restarted or resumed. Unset ones are kept.
type Overrides struct {
	Delay     time.Duration
	NotBefore time.Time
	Settings
}

// StartAt returns when the first attempt is due, not before now.
func (o *Overrides) StartAt(now time.Time) time.Time {
	start := now.Add(o.Delay)
	if !o.NotBefore.IsZero() {
		start = o.NotBefore
	}
	if start.Before(now) {
		return now
	}
	return start
}
