package store

import (
	"context"
	"time"
)

// Retention removes old data, but nothing that is in use: messages that have not ended and their
// flow-control keys, active runs, entries of a DLQ. The first message of an active run stays too,
// because the run's events refer to it.
type Retention interface {
	// Users returns all users that have log entries, dead letters, runs or flow-control keys, in
	// order.
	Users(ctx context.Context) ([]string, error)

	// Trim removes a user's data before the horizon in several commits, so it may have removed
	// something when it returns an error. A backend that stores whole days may keep data up to a
	// day longer.
	//
	// A run is removed with everything that belongs to it; its id then names the last run left
	// with that id. Its messages stay as long as the log has events of them, but may lose their
	// bodies, which are entries of its list.
	Trim(ctx context.Context, user string, horizon Horizon) (Trimmed, error)

	// Usage returns what is stored for a user, TotalUsage the totals across users; Oldest is the
	// minimum. Both are cheap enough to be called every few seconds.
	Usage(ctx context.Context, user string) (Usage, error)
	TotalUsage(ctx context.Context) (Usage, error)
}

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

// Usage is what is stored.
type Usage struct {
	Log         KindUsage  // events, with the messages they are about
	Days        []DayUsage // of the log, the oldest first: those that have events
	DeadLetters KindUsage  // of messages
	FailedRuns  KindUsage  // entries of the DLQ of runs
	Runs        KindUsage  // with their lists, those in the DLQ too
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
