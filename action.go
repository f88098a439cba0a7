package posthaste

import "time"

// BulkAction is a change of many messages, dead letters or runs that continues in the
// background, also across restarts, until it is finished.
type BulkAction struct {
	ID        string
	User      string
	Kind      ActionKind
	Filter    Filter    // what it changes
	Overrides Overrides // for what it publishes
	CallerIP  string    // address of the caller who requested it, without port

	// Asked is the filter in the words of the request. It is shown, and nothing depends on it.
	Asked map[string][]string

	Total     int             // how many matched when it began
	Processed int             // how many were changed
	Failed    int             // how many could not be changed
	Failures  []ActionFailure // the first MaxActionFailures of those

	Cursor      ActionCursor
	CreatedAt   time.Time
	CompletedAt time.Time // zero while it is in progress
	Cancelled   bool      // it was ended before it was done
}

// ActionCursor is where a bulk action continues: with the dead letters or runs at the positions
// from Low to High, or with messages at a cursor of the store. The zero cursor is that of the
// first message, and comes after the last step.
type ActionCursor struct {
	Low, High Position
	Live      string
}

// ActionKind says what a bulk action does.
type ActionKind string

// The kinds of bulk actions. Restart and resume are of runs; the kinds that runs
// share with messages have names of their own.
const (
	ActionCancel  ActionKind = "cancel"
	ActionRetry   ActionKind = "retry"
	ActionDelete  ActionKind = "delete"
	ActionRestart ActionKind = "restart"
	ActionResume  ActionKind = "resume"

	ActionCancelRuns ActionKind = "cancel runs"
	ActionDeleteRuns ActionKind = "delete runs"
)

// OfRuns reports whether the action changes workflow runs rather than messages.
func (k ActionKind) OfRuns() bool {
	return k == ActionRestart || k == ActionResume || k == ActionCancelRuns || k == ActionDeleteRuns
}

// MaxActionFailures is how many failures a bulk action remembers.
const MaxActionFailures = 100

// ActionRetention is how long a finished bulk action can be read: 7 days.
const ActionRetention = 7 * 24 * time.Hour

// ActionFailure is something a bulk action could not change, and why.
type ActionFailure struct {
	ID    string
	Error string
}

// Finished reports whether the action has come to its end, done or cancelled.
func (a *BulkAction) Finished() bool { return !a.CompletedAt.IsZero() }

// Count adds the result of a step.
func (a *BulkAction) Count(processed int, failures []ActionFailure) {
	a.Processed += processed
	a.Failed += len(failures)
	room := MaxActionFailures - len(a.Failures)
	a.Failures = append(a.Failures, failures[:min(room, len(failures))]...)
}
