// Package store is the seam between the engine and what keeps its state. It
// declares what a backend does, in intentions, and promises the engine builds
// on; package storetest turns each promise into a test.
//
// Three promises hold for every method that changes something:
//
//   - Durable: when it returns nil, the change survives a crash of the process
//     and of the machine.
//   - Atomic: it happened whole, log events and follow-up messages included,
//     or not at all. An error that is none of this package's leaves the caller
//     not knowing which.
//   - Ordered: the events it wrote have positions above those of every change
//     that had returned before it was called.
//
// What a method tells is durable, too, and in the log: nobody hears of what a crash
// could take back. Claims are the exception, and what is due.
//
// A backend that runs out of room refuses what would begin something new, with a
// posthaste.Error of CodeUnavailable: Accept, RetryDeadLetters, Tick, and Transact when
// it starts a run that no other one waits for. The rest goes on.
//
// Times are passed in; a backend never asks a clock. Everything belongs to a
// user, and what belongs to another user does not exist.
package store

import (
	"context"
	"errors"
	"time"

	"posthaste"
)

// Errors that callers act on. Backends return them wrapped or bare.
var (
	ErrNotFound  = errors.New("store: not found")
	ErrLeaseLost = errors.New("store: lease lost")
	ErrConflict  = errors.New("store: changed by someone else")
	ErrClosed    = errors.New("store: closed")

	// ErrUnavailable says that the backend cannot be asked at this moment. Whether a
	// change took place is not known.
	ErrUnavailable = errors.New("store: unavailable")

	// ErrClock says why a backend that many nodes share is unavailable on this one. It
	// comes with ErrUnavailable.
	ErrClock = errors.New("the clock of this node is too far from that of the database")
)

// Store is a whole backend.
type Store interface {
	Acceptor
	Worker
	Canceller
	Expediter
	Reader
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

	// Close gives up all leases and closes the backend. Calls in progress fail
	// with ErrClosed. Closing twice is harmless.
	Close() error
}

// Acceptor takes in new messages.
type Acceptor interface {
	// Accept stores the messages of the submissions, each with a CREATED event,
	// in one commit. A message becomes due at its NotBefore. The caller has given
	// each an id of its own and does not touch it again. A submission whose
	// DedupKey was accepted less than DedupWindow ago is answered with the ids of
	// then, and nothing of it is stored, unless all messages of then have FAILED or
	// are CANCELLED.
	//
	// A message that names a queue makes that queue if need be; one that names a
	// flow-control key makes the key follow its limits.
	Accept(ctx context.Context, now time.Time, submissions []Submission) ([]Accepted, error)
}

// Worker hands out due messages and takes back what became of them.
type Worker interface {
	// Claim leases up to limit due messages to the caller and logs each as
	// ACTIVE. Due lanes are served in turn, so that no lane waits for another;
	// within a lane the order is that of due time, then of message id. A leased
	// message is given to nobody else until it is settled or released, or its
	// lease is lost with the process that held it.
	//
	// In a queue, no message begins before an earlier one has, at most the queue's
	// parallelism have begun and not ended, and one whose callbacks have not ended
	// has not ended either. Under a flow-control key, attempts in flight stay
	// within its parallelism and attempts begun within its rate (package flow).
	// Nothing is handed out that is paused.
	//
	// The limit is what is free. A user whose claims take much of the rest is given less
	// than that, or nothing, so that whoever comes next finds a slot (flow.UserRoom).
	//
	// Claim also returns when the next waiting message that it did not hand out
	// becomes due: the zero time if none waits, now or earlier if the limit held
	// messages back. A lane held back by parallelism, a pause or what its user has in
	// flight is announced by Wake, one held back by a rate is counted at the end of its window.
	//
	// What cannot be read is returned as an error together with the other claims, and set
	// aside: it stays stored, and neither its lane nor anything else waits for it.
	//
	// The ACTIVE events may be lost in a crash; the messages are due again then.
	Claim(ctx context.Context, now time.Time, limit int) (claims []Claim, next time.Time, err error)

	// Wake returns a channel that receives after something happened that Claim
	// should be called for: a message was accepted, a lane has room again.
	Wake() <-chan struct{}

	// Settle ends a claim with a transition and its events. If the message was
	// cancelled meanwhile, the settlement is resolved by Settlement.Resolve.
	// It returns ErrLeaseLost, and changes nothing, when the claim is not the
	// message's current one.
	//
	// A message that fails becomes a dead letter. Callbacks of the settlement are
	// accepted in the same commit.
	Settle(ctx context.Context, now time.Time, settlement Settlement) error

	// Release ends claims without a result: the messages are due at once, in the
	// places and with the attempts they had, or CANCELLED if that was asked for
	// meanwhile. Claims that are not current are passed over.
	Release(ctx context.Context, now time.Time, claims []Claim) error
}

// Canceller stops messages.
type Canceller interface {
	// Cancel asks for the messages to be cancelled and returns those it changed:
	// ids that are unknown, ended or already asked for are passed over, and so are
	// messages of runs, which end with their run. Each
	// gets a CANCEL_REQUESTED event, and one that is not claimed a CANCELLED
	// event in the same commit. A claimed one is decided when it is settled. The
	// step is nil unless this is part of a bulk action.
	Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *Step) ([]posthaste.MessageID, error)
}

// Expediter makes messages due before their time.
type Expediter interface {
	// RunNow makes a message due at once that waits for its delay, or for its next
	// attempt. Its attempts, those that are left, and its log stay as they are; limits
	// of its flow-control key still hold. For one that is due already nothing changes.
	// It returns ErrNotFound for an unknown message and one that has ended, and what
	// RefuseRunNow returns.
	RunNow(ctx context.Context, now time.Time, user string, id posthaste.MessageID) error
}

// RefuseRunNow returns an Error with CodeInvalid if a message that has not ended cannot be
// made due by RunNow.
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

// Reader reads messages.
type Reader interface {
	// Message returns a message and where it stands, also after it ended, until
	// retention removes it. It returns ErrNotFound for an unknown id.
	Message(ctx context.Context, user string, id posthaste.MessageID) (Status, error)
}

// Vault keeps small secrets: tokens and signing keys. A key is a short text.
type Vault interface {
	// Secret returns the value kept under the key, or ErrNotFound.
	Secret(ctx context.Context, key string) (string, error)

	// PutSecretIfAbsent stores the value unless there is one, and returns the one that
	// is kept then.
	PutSecretIfAbsent(ctx context.Context, key, value string) (string, error)

	// CompareAndSwapSecret stores the value if the present one is old, and returns
	// ErrConflict otherwise.
	CompareAndSwapSecret(ctx context.Context, key, old, value string) error
}

// Health tells how the backend is.
type Health interface {
	// Ping commits nothing of meaning and returns when that is durable, or why
	// writes are refused.
	Ping(ctx context.Context) error

	// Stats returns counts and sizes; it is cheap enough to be called every few
	// seconds.
	Stats(ctx context.Context, now time.Time) (Stats, error)

	// InFlight returns how many of a user's messages are claimed.
	InFlight(ctx context.Context, user string) (int, error)
}

// Claim is a message leased for one attempt.
type Claim struct {
	Message *posthaste.Message // shared, not to be changed
	Retried int                // attempts that have failed before this one
	Lease   uint64             // the token of this claim

	// Held ends when the message may be given to somebody else, so that the attempt has to
	// end; nil: that is never before the process ends.
	Held context.Context
}

// Status is a message and where it stands.
type Status struct {
	Message       *posthaste.Message
	State         posthaste.State // CREATED, RETRY or ACTIVE while it lives, else how it ended
	Retried       int
	NextAttemptAt time.Time // zero when claimed or ended
}

// Stats describes a backend at one moment.
type Stats struct {
	// Due time of the message that waits longest past it: among those that nothing but
	// limits and the destination hold back, and among those whose queue or flow-control key
	// is paused. Zero if there is none. A backend looks at the first message of each lane.
	OldestDueAt       time.Time
	OldestPausedDueAt time.Time

	InFlight  int // claims that are neither settled nor released
	Lanes     int // lanes with waiting or claimed messages
	SetAside  int // records that could not be read since the backend was opened
	DiskBytes int64

	// How the disk is; zero where a backend does not know.
	FreeBytes int64
	Full      bool          // so little is free that nothing new is accepted
	Stalled   time.Duration // for how long it has not answered, if that is too long

	// Sums since the backend was opened; zero where they are not counted.
	WrittenBytes int64 // to disk: of what was stored, and to keep it in order
	LogReads     LogReads
}

// LogReads is the work of all queries of the log.
type LogReads struct {
	IndexBlocks int64 // read of the index to find entries, and values looked for in a week of its calendar
	Entries     int64 // read to see whether they match
	Returned    int64 // entries that did
}
