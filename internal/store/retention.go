package store

import (
	"context"
	"time"
)

// Retention removes what was kept long enough. What is alive is never removed: a
// message that has not ended, with its flow-control key, a run that goes on or is in the
// DLQ, a dead letter.
// The first message of a run that goes on stays too, for what becomes of the run is
// an event of that message.
type Retention interface {
	// Users returns everybody who has a log, dead letters, runs or flow-control keys, in
	// order.
	Users(ctx context.Context) ([]string, error)

	// Trim removes what of a user is behind the horizon. It works in steps that each
	// are a commit of their own, and so may have removed something when it fails. A
	// backend that keeps days together may keep what is up to a day older.
	//
	// A run goes with all that belongs to it, and its id is then that of the last run
	// that is left. Its messages stay as long as the log has events of them, but they
	// may lose their bodies, which are entries of its list.
	Trim(ctx context.Context, user string, horizon Horizon) (Trimmed, error)

	// Usage returns how much is kept of a user, and TotalUsage how much of all users
	// together, of whom the oldest thing is that of any. Both are cheap enough for
	// every few seconds.
	Usage(ctx context.Context, user string) (Usage, error)
	TotalUsage(ctx context.Context) (Usage, error)
}

// Horizon says from when on things are kept. A zero time keeps everything.
type Horizon struct {
	Log         time.Time // events, and messages of which no event is left
	DeadLetters time.Time // entries of both DLQs that failed before
	Runs        time.Time // runs that ended before
	FlowKeys    time.Time // keys that have been idle since (posthaste.FlowKey.Idle), and that no message needs
}

// Trimmed says what was removed.
type Trimmed struct {
	Days        int // of the log, as far as there was something in them
	DeadLetters int // of both DLQs
	Runs        int
	FlowKeys    int
}

// Empty reports whether nothing was removed.
func (t Trimmed) Empty() bool { return t == Trimmed{} }

// Usage says how much is kept.
type Usage struct {
	Log         Kept      // events, with the messages they are about
	Days        []KeptDay // of the log, the oldest first: those that have events
	DeadLetters Kept      // of messages
	FailedRuns  Kept      // entries of the DLQ of runs
	Runs        Kept      // with their lists, those in the DLQ too
}

// Kept is how much is kept of one kind. The number and the time are exact, as of one
// moment; the size is an estimate of what is on disk, and may leave out what was
// written lately or count what was removed lately.
type Kept struct {
	Entries int64
	Oldest  time.Time // when the oldest came to be: the first event, failure or run; zero if none
	Bytes   int64
}

// KeptDay is how much is kept of a day of the log. What is alive in a day that was
// dropped is in none.
type KeptDay struct {
	Start time.Time // in UTC
	Kept
}

// Bytes returns the size of all kinds together.
func (u *Usage) Bytes() int64 {
	return u.Log.Bytes + u.DeadLetters.Bytes + u.FailedRuns.Bytes + u.Runs.Bytes
}
