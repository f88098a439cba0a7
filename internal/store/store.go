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
	"log/slog"
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

	// ErrDivided means that a user is divided into another number of partitions than the caller
	// thought: see Divisible.
	ErrDivided = errors.New("store: divided otherwise")

	// ErrClock, wrapped with ErrUnavailable, is why a node of a shared backend is unavailable.
	ErrClock = errors.New("the clock of this node is too far from that of the database")
)

// PartAway names, wrapped with ErrUnavailable, the one of several databases that is away.
type PartAway string

func (p PartAway) Error() string { return string(p) + " is away" }

// Store is what the engine works with: a backend with the rules of package ledger.
//
// Queues, URL groups, schedules and flow-control keys are changed by a function that is called
// within the transaction. It gets the stored value, or one with nothing but the name, and its
// result is stored. If it returns an error, nothing changes and that error is returned. CreatedAt
// and UpdatedAt are set by the store.
type Store interface {
	// Accept stores the messages of the submissions, each with a CREATED event, in one commit. All
	// are of one user. A message becomes due at its NotBefore. The caller sets unique ids and does not use the
	// messages afterwards. If a DedupKey was accepted within DedupWindow, the earlier ids are
	// returned and nothing is stored, unless all earlier messages are FAILED or CANCELLED.
	//
	// A message creates the queue that it names, and sets the limits of its flow-control key.
	Accept(ctx context.Context, now time.Time, submissions []Submission) ([]Accepted, error)

	// Claim, Wake, Release: see Backend. A claimed message whose cancellation was requested is
	// CANCELLED instead of being returned, or due again.
	Claim(ctx context.Context, now time.Time, limit int) (claims []Claim, next time.Time, err error)
	Wake() <-chan struct{}
	Release(ctx context.Context, now time.Time, claims []Claim) error

	// Settle ends a claim with a new state and its events, and returns what the settlement became:
	// Settlement.Resolve applies a cancellation requested in the meantime, UpdateRun what it means
	// for a run. If the claim is not current, it returns ErrLeaseLost and changes nothing. With
	// ErrUnavailable, it returns what the settlement became if it took place, as far as that is
	// known.
	//
	// A failed message becomes a dead letter. Callbacks are accepted in the same commit.
	Settle(ctx context.Context, now time.Time, settlement Settlement) (Settlement, error)

	// Cancel requests the cancellation of messages and returns those it changed. It skips ids
	// that are unknown, ended, already requested, or of runs. Each message gets a
	// CANCEL_REQUESTED event and, if it is not claimed, a CANCELLED event; Settle decides about a
	// claimed one. step is nil outside bulk actions.
	Cancel(ctx context.Context, now time.Time, user string, ids []posthaste.MessageID, step *Step) ([]posthaste.MessageID, error)

	// RunNow makes a message due now that waits for its delay or its next attempt. Its attempts
	// and log stay; flow-control limits still apply. A due message is left as it is. It returns
	// ErrNotFound for an unknown or ended message, and the error of RefuseRunNow.
	RunNow(ctx context.Context, now time.Time, user string, id posthaste.MessageID) error

	// Message returns a message and its status until retention removes it, or ErrNotFound.
	Message(ctx context.Context, user string, id posthaste.MessageID) (Status, error)

	// LiveMessages: see Backend.
	LiveMessages(ctx context.Context, user string, query LiveQuery) (ids []posthaste.MessageID, cursor string, err error)

	Log

	// Watch: see Backend.
	Watch(ctx context.Context, user string) (end posthaste.Position, grown <-chan struct{}, err error)

	// DeadLetters returns a page of the dead letters that match. The promises of Log.Events hold,
	// PageBytes included, except that dead letters may disappear between pages.
	DeadLetters(ctx context.Context, user string, query DeadLetterQuery) (DeadLetterPage, error)

	// DeadLetter returns one, or ErrNotFound.
	DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error)

	// DeleteDeadLetters removes dead letters in one commit and returns the removed ones in the
	// order of ids; unknown ids are skipped. It may stop early, see BatchLimit: call it again
	// with the ids after the last one returned. progress is nil outside bulk actions.
	DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, progress Progress) ([]posthaste.DeadLetterID, error)

	// RetryDeadLetters replaces each dead letter by the new message that remake returns, in one
	// commit. Unknown ids are skipped; if remake returns an error, that dead letter stays. One that
	// is named twice has one result. Order and early stop are as for DeleteDeadLetters.
	RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
		remake func(*posthaste.DeadLetter) (*posthaste.Message, error), progress Progress) ([]Retried, error)

	// UpdateQueue changes or creates a queue. Enqueueing a message creates its queue too, with
	// posthaste.DefaultParallelism. The change applies at once to waiting messages.
	UpdateQueue(ctx context.Context, now time.Time, user, name string, change func(*posthaste.Queue) error) error

	// Queue returns a queue, or ErrNotFound.
	Queue(ctx context.Context, user, name string) (QueueStatus, error)

	// Queues returns the queues whose names follow after, in order.
	Queues(ctx context.Context, user, after string) (List[QueueStatus], error)

	// QueueNames returns the names of all queues of a user, in order, without reading their
	// messages.
	QueueNames(ctx context.Context, user string) ([]string, error)

	// DeleteQueue removes a queue and cancels its messages; a claimed one may still be delivered,
	// but is not retried. Messages of runs, and messages enqueued meanwhile, are delivered one
	// after another without the queue. A long queue takes several commits; the last one removes
	// it. Deleting an unknown queue is no error.
	DeleteQueue(ctx context.Context, now time.Time, user, name string) error

	// UpdateURLGroup changes or creates a group, and removes one without endpoints.
	UpdateURLGroup(ctx context.Context, now time.Time, user, name string, change func(*posthaste.URLGroup) error) error

	// URLGroup returns a group, or ErrNotFound.
	URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error)

	// URLGroups returns the groups whose names follow after, in order.
	URLGroups(ctx context.Context, user, after string) (List[*posthaste.URLGroup], error)

	// DeleteURLGroup removes a group, but not its messages. Deleting an unknown group is no
	// error.
	DeleteURLGroup(ctx context.Context, user, name string) error

	// UpdateSchedule changes or creates a schedule. It is due at NextAt, unless that is zero or
	// it is paused.
	UpdateSchedule(ctx context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error

	// Schedule returns a schedule, or ErrNotFound.
	Schedule(ctx context.Context, user, id string) (*posthaste.Schedule, error)

	// Schedules returns the schedules whose ids follow after, in order.
	Schedules(ctx context.Context, user, after string) (List[*posthaste.Schedule], error)

	// DeleteSchedule removes a schedule, but not its messages. Deleting an unknown schedule is no
	// error.
	DeleteSchedule(ctx context.Context, user, id string) error

	// DueSchedules returns up to limit due schedules of all users except some, earliest first,
	// and when the next other one is due (zero: none). Unreadable ones are returned as an error
	// together with the readable ones.
	DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error)

	// Tick accepts the messages of a tick and replaces the schedule, as read in before, by after,
	// in one commit. If the stored schedule has changed since or is not due, it returns
	// ErrConflict and changes nothing.
	Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error

	// UpdateFlowKey changes or creates a key. So does each message that names one: the latest sets
	// its limits. Each message and each change counts as a use (posthaste.FlowKey.Use). The change
	// applies at once to waiting messages.
	UpdateFlowKey(ctx context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error

	// FlowKey returns a key, or ErrNotFound.
	FlowKey(ctx context.Context, now time.Time, user, key string) (FlowStatus, error)

	// FlowKeys returns the keys that contain the text and follow after, in order.
	FlowKeys(ctx context.Context, now time.Time, user, contains, after string) (List[FlowStatus], error)

	// DeleteFlowKey removes a key with its pins, pause and counters, or returns ErrNotFound.
	// While messages that have not ended name the key, it returns the error of
	// RefuseDeleteFlowKey, because their limits would be lifted.
	DeleteFlowKey(ctx context.Context, user, key string) error

	Runs

	// PutAction stores a new action.
	PutAction(ctx context.Context, action *posthaste.BulkAction) error

	// Action returns an action, or ErrNotFound.
	Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error)

	// Actions returns all actions of a user, ordered by id.
	Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error)

	// UnfinishedActions returns the running actions of all users. Unreadable records are returned
	// as an error together with the readable ones.
	UnfinishedActions(ctx context.Context) ([]*posthaste.BulkAction, error)

	// UpdateAction applies change to an action, or returns ErrNotFound.
	UpdateAction(ctx context.Context, user, id string, change func(*posthaste.BulkAction)) error

	// DeleteActions removes the actions of all users that completed before the given time.
	DeleteActions(ctx context.Context, completedBefore time.Time) error

	// Trim removes a user's data before the horizon in several commits, so it may have removed
	// something when it returns an error. It removes nothing that is in use: messages that have not
	// ended and their flow-control keys, active runs with their first messages, entries of a DLQ.
	// Whole days of the log are removed, so events may stay up to a day longer.
	//
	// A run is removed with everything that belongs to it; its id then names the last run left
	// with that id. Its messages stay as long as the log has events of them, but may lose their
	// bodies, which are entries of its list.
	Trim(ctx context.Context, user string, horizon Horizon) (Trimmed, error)

	// Usage, TryLease, Ping, Stats: see Backend.
	Usage(ctx context.Context, user string) (Usage, error)
	TryLease(ctx context.Context, job string, held time.Duration) (bool, error)
	Ping(ctx context.Context) error
	Stats(ctx context.Context, now time.Time) (Stats, error)

	Vault

	// Close releases all leases and closes the backend. Calls in progress return ErrClosed. It is
	// idempotent.
	Close() error
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

	// Messages that wait, by what holds the next one of their lane; nil while they are being
	// counted, which the embedded backend does after it was opened.
	Waiting map[Waiting]int
	Queues  []QueueLag // whose next message is due

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

// LogLevel is the level of a line about a call that failed. A backend that cannot be reached is logged
// by itself, once, and not with each call.
func LogLevel(err error) slog.Level {
	if errors.Is(err, ErrUnavailable) {
		return slog.LevelDebug
	}
	return slog.LevelError
}
