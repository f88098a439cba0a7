package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"posthaste"
)

// Runs keeps workflow runs, their lists and the DLQ of those that failed.
//
// What happens to runs is decided by rules that need to read and write many
// things at once, so the seam offers a transaction instead of a method for each:
// the rules are written once, for every backend.
type Runs interface {
	// Transact calls change and commits what it wrote through the transaction, all
	// of it if change returns nil, and otherwise nothing. Transactions of a user
	// take effect one after another. A backend may call change more than once, and
	// only the last call counts; so change must be quick, must not block, and must
	// change nothing else that would matter.
	Transact(ctx context.Context, now time.Time, user string, change func(RunTx) error) error

	// Run returns a run, and LatestRun the one with that id that was created last;
	// both return ErrNotFound for an unknown one.
	Run(ctx context.Context, user string, at posthaste.Position) (*posthaste.Run, error)
	LatestRun(ctx context.Context, user, id string) (*posthaste.Run, error)

	// RunEntries returns the first entries of a run's list, in order: all of them
	// if count is negative.
	RunEntries(ctx context.Context, user string, at posthaste.Position, count int) ([]posthaste.RunEntry, error)

	// Runs returns a page of the runs, or of the DLQ of runs, that match the query.
	// What is promised for Log.Events holds here too, except that a run is shown as
	// it is when it is read, and that entries of the DLQ may disappear between
	// pages. No page holds more than PageBytes, as there.
	Runs(ctx context.Context, user string, query RunQuery) (RunPage, error)
}

// Waiters finds what waits.
type Waiters interface {
	// EventWaiters returns what waits for an event, first come first.
	EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error)

	// RunWaiters returns what a run waits for, in the order in which it began to.
	RunWaiters(ctx context.Context, user string, at posthaste.Position) ([]*posthaste.Waiter, error)

	// DueWaiters returns up to limit waiters of all users but some whose deadline has
	// come, and when the next one's will: the zero time if none has one, now or earlier
	// if the limit held some back.
	DueWaiters(ctx context.Context, now time.Time, limit int, except ...string) (due []DueWaiter, next time.Time, err error)
}

// DueWaiter names a waiter whose deadline has come.
type DueWaiter struct {
	User     string
	Run      posthaste.Position
	Position posthaste.Position
}

// RunTx is a transaction on the runs of one user. What it returns it keeps: a
// run that is changed is saved by Save. Reading sees what was written before in
// the same transaction only where a method says so.
type RunTx interface {
	RunRecords
	RunDeliveries
	RunWaiting
	RunDLQ
	RunAnswers
}

// RunRecords reads and writes runs and their lists within a transaction. Each run
// is one object however often it is asked for.
type RunRecords interface {
	// Now is the time of the transaction.
	Now() time.Time

	// NextPosition returns a position that nothing else has or will have, above
	// those of all events that were committed before.
	NextPosition() posthaste.Position

	// Run and LatestRun return a run, one that was started in this transaction too,
	// or ErrNotFound.
	Run(at posthaste.Position) (*posthaste.Run, error)
	LatestRun(id string) (*posthaste.Run, error)

	// Start writes a new run. From here on it is the latest with its id.
	Start(run *posthaste.Run)

	// Save writes a run that has changed. It may be called several times.
	Save(run *posthaste.Run)

	// Log adds the run's state to the log, as an event about a message of the run.
	Log(m *posthaste.Message, state posthaste.State, reason string)
}

// RunDeliveries adds to the lists of runs and makes and stops their messages.
type RunDeliveries interface {
	// Append adds an entry to the end of a run's list and counts it, and its bytes, in
	// the run. Its index is set here. If m is not nil it is accepted as Acceptor.Accept
	// does: it is the message of that entry, its body is the entry's.
	Append(run *posthaste.Run, entry posthaste.RunEntry, m *posthaste.Message) error

	// PutIdempotencyRecord keeps a message id of a run under a key for as long as the run is
	// kept. IdempotencyRecord returns it, in this transaction too; ok is false if there is none.
	PutIdempotencyRecord(run *posthaste.Run, key string, id posthaste.MessageID)
	IdempotencyRecord(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error)

	// Entries returns the first entries of a run's list as they were before this
	// transaction: all if count is negative.
	Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error)

	// Accept accepts a message of a run that adds nothing to its list: a failure
	// callback, or another delivery of an entry, which it names and whose body is
	// its body.
	Accept(m *posthaste.Message) error

	// Message returns a message and its state as they were before this transaction,
	// or ErrNotFound.
	Message(id posthaste.MessageID) (*posthaste.Message, posthaste.State, error)

	// CancelDeliveries cancels those messages of a run's list, and its first one, that
	// have not ended, except the one that is being settled. Those in flight are asked to be
	// cancelled if inFlight says so, and are left alone otherwise.
	CancelDeliveries(run *posthaste.Run, inFlight bool) error

	// Cancel cancels one message as Canceller.Cancel does, and reports whether it
	// could.
	Cancel(id posthaste.MessageID) (bool, error)
}

// RunWaiting registers and ends waiters and keeps events that came too early.
type RunWaiting interface {
	// Wait registers a waiter and sets its position.
	Wait(w *posthaste.Waiter)

	// Waiter returns a waiter, or ErrNotFound; Waiters those for a topic, first
	// come first; RunWaiters those of a run, in the order in which it began to wait.
	// What this transaction ended is not among them.
	Waiter(run, at posthaste.Position) (*posthaste.Waiter, error)
	Waiters(topic posthaste.Topic) ([]*posthaste.Waiter, error)
	RunWaiters(run posthaste.Position) ([]*posthaste.Waiter, error)

	// EndWait removes a waiter.
	EndWait(w *posthaste.Waiter)

	// KeepEvent keeps an event for a run, and TakeEvent takes the first that was kept
	// under the id, or returns ok false. DropEvents forgets all of a run, and MoveEvents
	// gives those that were kept for a run before this transaction to another one, which
	// has none.
	KeepEvent(run posthaste.Position, eventID string, body []byte)
	TakeEvent(run posthaste.Position, eventID string) (body []byte, ok bool, err error)
	DropEvents(run posthaste.Position) error
	MoveEvents(from, to posthaste.Position) error
}

// RunDLQ moves runs into the DLQ of runs and out of it. The id of an entry is in
// its run.
type RunDLQ interface {
	// AddToDLQ adds an entry for a run that has failed: run.DeadLetterID is d.ID.
	AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter)

	// DLQEntry returns an entry and its run, or ErrNotFound, also when this transaction
	// has removed it.
	DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error)

	// RemoveFromDLQ removes the entry of a run.
	RemoveFromDLQ(run *posthaste.Run)
}

// RunAnswers makes operations on runs repeatable, and parts of bulk actions.
type RunAnswers interface {
	// Answer returns what was kept under a key less than AnswerWindow ago, nil if
	// nothing was; CacheResponse keeps an answer.
	CachedResponse(key string) ([]byte, error)
	CacheResponse(key string, answer []byte)

	// Advance counts a step of a bulk action; a nil step is none. It returns
	// ErrNotFound if the action is gone, ErrConflict if it has ended.
	Advance(step *Step, processed int, failures []posthaste.ActionFailure) error
}

// AnswerWindow is how long an answer is kept.
const AnswerWindow = 24 * time.Hour

// RunQuery selects runs by position and filter.
type RunQuery struct {
	Filter      RunFilter
	Failed      bool               // the entries of the DLQ of runs, by the position of the failure
	Low, High   posthaste.Position // of the run, or of its failure; both inclusive
	OldestFirst bool
	Limit       int  // at most so many; at least 1
	Bare        bool // the runs alone: dead letters, which may be large, are left out
}

// RunPage is a part of the answer to a RunQuery.
type RunPage struct {
	Runs        []*posthaste.Run
	DeadLetters []*posthaste.DeadLetter // those of the runs, if the DLQ was asked for and not Bare
	More        bool
	Next        posthaste.Position // as in EventPage
}

// RunFilter narrows a query. Fields are joined by AND, the values of one field by
// OR; an empty field does not filter.
type RunFilter struct {
	Positions     []posthaste.Position
	DeadLetterIDs []posthaste.DeadLetterID
	IDs           []string
	IDPrefixes    []string
	URLs          []string
	URLPrefixes   []string
	Hosts         []string // of URLs, with or without port, in any case
	Paths         []string // of URLs, without their queries
	States        []posthaste.RunState
	Labels        []string
	CallerIPs     []string
	FlowKeys      []string

	CreatedAts     []time.Time
	CallbackStates []posthaste.CallbackState
	Statuses       []int // of the answer that failed the run; 0: no answer
}

// Matches reports whether a run passes the filter. It is the definition that
// every index has to agree with.
func (f *RunFilter) Matches(run *posthaste.Run) bool {
	return passes(f.Positions, run.Position) &&
		passes(f.DeadLetterIDs, run.DeadLetterID) &&
		passes(f.IDs, run.ID) &&
		passesPrefix(f.IDPrefixes, run.ID) &&
		passes(f.URLs, run.URL) &&
		passesPrefix(f.URLPrefixes, run.URL) &&
		passesHostAndPath(f.Hosts, f.Paths, run.URL) &&
		passes(f.States, run.State) &&
		passes(f.CallerIPs, run.CallerIP) &&
		passes(f.FlowKeys, run.FlowControl.Key) &&
		passes(f.Statuses, run.FailedStatus) &&
		passesAny(f.Labels, run.Labels) &&
		f.passesCallback(run.Reported) &&
		(len(f.CreatedAts) == 0 || slices.ContainsFunc(f.CreatedAts, run.CreatedAt.Equal))
}

func (f *RunFilter) passesCallback(c *posthaste.RunCallback) bool {
	return len(f.CallbackStates) == 0 || c != nil && slices.Contains(f.CallbackStates, c.State)
}

func passesPrefix(wanted []string, value string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(prefix string) bool { return strings.HasPrefix(value, prefix) })
}
