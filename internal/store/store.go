// Package store is the interface between the engine and a backend. Package storetest has a test
// for each promise.
//
// Three promises hold for every method that changes something:
//
//   - Durable: once it returns nil, the change survives a crash of the process and of the machine.
//   - Atomic: all of it happened, log events and follow-up messages included, or nothing. After an
//     error that is not declared here, the caller does not know which.
//   - Ordered: its events have higher positions than those of every change that had returned before.
//
// Results are durable and logged before a method returns them; only claims and due lists are not.
//
// A backend whose disk is full rejects new work with a posthaste.Error of CodeUnavailable:
// Accept, RetryDeadLetters, Tick, and Transact when it starts a run that no other run waits for.
// Everything else continues.
//
// Times are arguments; a backend never reads a clock. Every record belongs to a user; other
// users' records do not exist for the caller.
package store

import (
	"context"
	"errors"
	"time"

	"posthaste"
)

// Errors that callers check for. Backends may wrap them.
var (
	ErrNotFound  = errors.New("store: not found")
	ErrLeaseLost = errors.New("store: lease lost")
	ErrConflict  = errors.New("store: changed by someone else")
	ErrClosed    = errors.New("store: closed")

	// ErrUnreadable means that a stored message is damaged.
	ErrUnreadable = errors.New("store: unreadable")

	// ErrUnavailable means that the backend cannot be reached now. Whether a change took place is
	// unknown.
	ErrUnavailable = errors.New("store: unavailable")

	// ErrClock, wrapped with ErrUnavailable, is why a node of a shared backend is unavailable.
	ErrClock = errors.New("the clock of this node is too far from that of the database")
)

// Store is what the engine works with: a backend with the rules of package ledger.
type Store interface {
	Acceptor
	Worker
	Canceller
	Expediter
	MessageReader
	Log
	Watcher
	DeadLetters
	LiveMessages
	Queues
	URLGroups
	Schedules
	FlowKeys
	Runs
	Waiters
	Actions
	Jobs
	Retention
	Vault
	Health

	// Close releases all leases and closes the backend. Calls in progress return ErrClosed. It is
	// idempotent.
	Close() error
}

// Acceptor accepts new messages.
type Acceptor interface {
	// Accept stores the messages of the submissions, each with a CREATED event, in one commit. All
	// are of one user. A message becomes due at its NotBefore. The caller sets unique ids and does not use the
	// messages afterwards. If a DedupKey was accepted within DedupWindow, the earlier ids are
	// returned and nothing is stored, unless all earlier messages are FAILED or CANCELLED.
	//
	// A message creates the queue that it names, and sets the limits of its flow-control key.
	Accept(ctx context.Context, now time.Time, submissions []Submission) ([]Accepted, error)
}

// Worker leases due messages and records the results.
type Worker interface {
	Claimer

	// Settle ends a claim with a new state and its events. Settlement.Resolve applies a
	// cancellation requested in the meantime. If the claim is not current, it returns
	// ErrLeaseLost and changes nothing.
	//
	// A failed message becomes a dead letter. Callbacks are accepted in the same commit.
	Settle(ctx context.Context, now time.Time, settlement Settlement) error
}

// Claimer leases due messages.
type Claimer interface {
	// Claim leases up to limit due messages and logs each as ACTIVE. Due lanes take turns; within
	// a lane the order is due time, then message id. Nobody else gets a leased message until it
	// is settled or released, or its process ends.
	//
	// In a queue, messages start in order, at most parallelism of them have started and not
	// ended, and a message ends only after its callbacks. Under a flow-control key, attempts in
	// flight stay within its parallelism, and started attempts within its rate (package flow).
	// Paused lanes are skipped.
	//
	// limit is the number of free slots. A user who already has many claims gets fewer, so that
	// other users find a slot (flow.UserQuota).
	//
	// next is when the next waiting message becomes due: zero if none waits, now or earlier if
	// limit left messages behind. For lanes blocked by parallelism, a pause or their user's
	// claims, Wake signals; for those blocked by a rate, next is the end of the window.
	//
	// Unreadable messages are returned as an error together with the claims. They stay stored,
	// and their lane continues without them.
	//
	// A crash may lose ACTIVE events; those messages are due again.
	Claim(ctx context.Context, now time.Time, limit int) (claims []Claim, next time.Time, err error)

	// Wake returns a channel that signals when Claim should be called: a message was accepted, or
	// a lane is no longer blocked.
	Wake() <-chan struct{}

	// Release ends claims without a result: the messages are due at once, with the same order and
	// attempts, or CANCELLED if that was requested. Claims that are not current are skipped.
	Release(ctx context.Context, now time.Time, claims []Claim) error
}

// Canceller cancels messages.
type Canceller interface {
	// Cancel requests the cancellation of messages and returns those it changed. It skips ids
	// that are unknown, ended, already requested, or of runs. Each message gets a
	// CANCEL_REQUESTED event and, if it is not claimed, a CANCELLED event; Settle decides about a
	// claimed one. step is nil outside bulk actions.
	Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *Step) ([]posthaste.MessageID, error)
}

// Expediter makes messages due early.
type Expediter interface {
	// RunNow makes a message due now that waits for its delay or its next attempt. Its attempts
	// and log stay; flow-control limits still apply. A due message is left as it is. It returns
	// ErrNotFound for an unknown or ended message, and the error of RefuseRunNow.
	RunNow(ctx context.Context, now time.Time, user string, id posthaste.MessageID) error
}

// RefuseRunNow returns an Error with CodeInvalid if RunNow cannot make a live message due.
func RefuseRunNow(m *posthaste.Message, claimed, cancelRequested bool) error {
	switch {
	case cancelRequested:
		return posthaste.Invalidf("message %s is not run now: its cancellation was asked for", m.ID)
	case claimed:
		return posthaste.Invalidf("message %s is not run now: an attempt is in flight", m.ID)
	case m.Queue != "":
		return posthaste.Invalidf("message %s is not run now: it waits in queue %.200q, whose messages keep their order", m.ID, m.Queue)
	}
	return nil
}

// MessageReader reads messages.
type MessageReader interface {
	// Message returns a message and its status until retention removes it, or ErrNotFound.
	Message(ctx context.Context, user string, id posthaste.MessageID) (Status, error)
}

// Vault stores small secrets, such as tokens and signing keys, under short keys.
type Vault interface {
	// Secret returns a value, or ErrNotFound.
	Secret(ctx context.Context, key string) (string, error)

	// PutSecretIfAbsent stores the value if there is none, and returns the stored one.
	PutSecretIfAbsent(ctx context.Context, key, value string) (string, error)

	// CompareAndSwapSecret replaces old by value, or returns ErrConflict if the stored value is
	// not old.
	CompareAndSwapSecret(ctx context.Context, key, old, value string) error
}

// Health reports the state of the backend.
type Health interface {
	// Ping returns once an empty commit is durable, or why writes fail.
	Ping(ctx context.Context) error

	// Stats returns counts and sizes. It is cheap enough to be called every few seconds.
	Stats(ctx context.Context, now time.Time) (Stats, error)

	// InFlight returns the number of a user's claimed messages.
	InFlight(ctx context.Context, user string) (int, error)
}

// Claim is a message leased for one attempt.
type Claim struct {
	Message *posthaste.Message // shared: read-only
	Retried int                // failed attempts before this one
	Lease   uint64             // token of this claim

	// Held ends when the lease may be lost, so the attempt must stop. nil: the lease lasts as
	// long as the process.
	Held context.Context

	CancelRequested bool // its cancellation was requested before the claim: it ends without an attempt
}

// Status is a message and its state.
type Status struct {
	Message       *posthaste.Message
	State         posthaste.State // CREATED, RETRY, ACTIVE or a final state
	Retried       int
	NextAttemptAt time.Time // zero when claimed or ended
}

// Stats describes a backend.
type Stats struct {
	// Due time of the most overdue message that is not paused, and of the most overdue one in a
	// paused lane. Zero if none. Backends look at the first message of each lane.
	OldestDueAt       time.Time
	OldestPausedDueAt time.Time

	InFlight  int // claims not settled or released
	Lanes     int // with waiting or claimed messages
	SetAside  int // unreadable records found since the backend was opened
	DiskBytes int64

	// Disk state; zero if the backend does not know.
	FreeBytes int64
	Full      bool          // new messages are rejected
	Stalled   time.Duration // how long the disk has not responded, if too long

	// Totals since the backend was opened; zero if not counted.
	WrittenBytes int64 // including compaction
	LogReads     LogReads
}

// LogReads counts the work of log queries.
type LogReads struct {
	IndexBlocks int64 // index blocks read, and lookups in the term–day index
	Entries     int64 // read to be matched
	Returned    int64 // matching entries
}
