package store

import (
	"slices"
	"time"
)

// Horizon has the time before which data of each kind is removed. Zero: nothing is removed.
type Horizon struct {
	Log         time.Time // events, and messages of which no event is left
	DeadLetters time.Time // entries of both DLQs that failed before
	Runs        time.Time // runs that ended before
	Expired     time.Time // submissions and cached responses that are not valid any more at this time
	FlowKeys    time.Time // keys that have been idle since (posthaste.FlowKey.Idle), and that no message needs
}

// Trimmed counts what was removed.
type Trimmed struct {
	Days        int // of the log that had entries
	DeadLetters int // of both DLQs
	Runs        int
	FlowKeys    int
}

// Empty reports whether nothing was removed.
func (t Trimmed) Empty() bool { return t == Trimmed{} }

// Usage is what is stored, and what is in flight.
type Usage struct {
	InFlight    int        // claimed messages
	Log         KindUsage  // events, with the messages they are about
	Days        []DayUsage // of the log, the oldest first: those that have events
	DeadLetters KindUsage  // of messages
	FailedRuns  KindUsage  // entries of the DLQ of runs
	Runs        KindUsage  // with their lists, those in the DLQ too
	Users       []string   // of the totals: all that have any of that or flow-control keys, in order
}

// Add adds what another part of the store has. Users stay.
func (u *Usage) Add(part Usage) {
	u.InFlight += part.InFlight
	u.Log.Add(part.Log)
	u.DeadLetters.Add(part.DeadLetters)
	u.FailedRuns.Add(part.FailedRuns)
	u.Runs.Add(part.Runs)
	for _, day := range part.Days {
		i, found := slices.BinarySearchFunc(u.Days, day.Start, func(d DayUsage, at time.Time) int { return d.Start.Compare(at) })
		if !found {
			u.Days = slices.Insert(u.Days, i, DayUsage{Start: day.Start})
		}
		u.Days[i].Add(day.KindUsage)
	}
}

// Add adds what another part of the store has.
func (k *KindUsage) Add(part KindUsage) {
	k.Entries += part.Entries
	k.Bytes += part.Bytes
	if k.Oldest.IsZero() || !part.Oldest.IsZero() && part.Oldest.Before(k.Oldest) {
		k.Oldest = part.Oldest
	}
}

// KindUsage is what is stored of one kind. Count and time are exact, as of one moment; the size is
// an estimate of disk usage and may lag behind recent writes and removals.
type KindUsage struct {
	Entries int64
	Oldest  time.Time // first event, failure or run; zero if none
	Bytes   int64
}

// DayUsage is what is stored of one day of the log. Live messages of a removed day are not
// counted.
type DayUsage struct {
	Start time.Time // in UTC
	KindUsage
}

// Bytes returns the total size.
func (u *Usage) Bytes() int64 {
	return u.Log.Bytes + u.DeadLetters.Bytes + u.FailedRuns.Bytes + u.Runs.Bytes
}
