package store

import (
	"context"
	"time"
)

// Retention removes what was kept long enough. What is alive is never removed: a
// message that has not ended, a run that goes on or is in the DLQ, a dead letter.
// The first message of a run that goes on stays too, for what becomes of the run is
// an event of that message.
type Retention interface {
	// Users returns everybody who has a log.
	Users(ctx context.Context) ([]string, error)

	// Trim removes what of a user is behind the horizon. It works in steps that each
	// are a commit of their own, and so may have removed something when it fails. A
	// backend that keeps days together may keep what is up to a day older.
	//
	// A run goes with all that belongs to it, and its id is then that of the last run
	// that is left. Its messages stay as long as the log has events of them, but they
	// may lose their bodies, which are entries of its list.
	Trim(ctx context.Context, user string, horizon Horizon) (Trimmed, error)
}

// Horizon says from when on things are kept. A zero time keeps everything.
type Horizon struct {
	Log         time.Time // events, and messages of which no event is left
	DeadLetters time.Time // entries of both DLQs that failed before
	Runs        time.Time // runs that ended before
}

// Trimmed says what was removed.
type Trimmed struct {
	Days        int // of the log, as far as there was something in them
	DeadLetters int // of both DLQs
	Runs        int
}

// Empty reports whether nothing was removed.
func (t Trimmed) Empty() bool { return t == Trimmed{} }
