package store

import (
	"context"
	"time"

	"posthaste"
)

// Runs stores workflow runs, their lists, what they wait for, and the DLQ of runs. Rules about runs
// read and write many records at once: they are in package workflow, over Transact.
type Runs interface {
	// Transact calls change and commits its writes if it returns nil. Transactions of a user are
	// serialized. A backend may call change several times; only the last call counts. change must
	// be quick, must not block and must have no other side effects.
	Transact(ctx context.Context, now time.Time, user string, change func(RunTx) error) error

	// Run returns a run, LatestRun the latest one with that id, or ErrNotFound.
	Run(ctx context.Context, user string, at posthaste.Position) (*posthaste.Run, error)
	LatestRun(ctx context.Context, user, id string) (*posthaste.Run, error)

	// RunEntries returns count entries of a run's list from an index on, all of them if count is
	// negative. An entry never changes.
	RunEntries(ctx context.Context, user string, at posthaste.Position, from, count int) ([]posthaste.RunEntry, error)

	// Runs returns a page of matching runs, or of the DLQ of runs. The promises of Log.Events
	// hold, PageBytes included, except that a run has its current state, and that DLQ entries may
	// disappear between pages.
	Runs(ctx context.Context, user string, query RunQuery) (RunPage, error)

	// EventWaiters returns the waiters for an event, oldest first.
	EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error)

	// RunWaiters returns a run's waiters, oldest first.
	RunWaiters(ctx context.Context, user string, at posthaste.Position) ([]*posthaste.Waiter, error)

	// DueWaiters returns up to limit waiters of all users except some whose deadline has passed,
	// and the next deadline: zero if none, now or earlier if limit left some behind.
	DueWaiters(ctx context.Context, now time.Time, limit int, except ...string) (due []DueWaiter, next time.Time, err error)
}

// DueWaiter identifies a waiter whose deadline has passed.
type DueWaiter struct {
	User     string
	Run      posthaste.Position
	Position posthaste.Position
}

// RunTx is a transaction on one user's runs. Changed runs must be saved with Save; each run is one
// object within the transaction. Reads see earlier writes of the transaction only where stated.
type RunTx interface {
	// Now returns the time of the transaction.
	Now() time.Time

	// NextPosition returns a unique position above all committed events, in a slot: that of the run.
	NextPosition(posthaste.Slot) posthaste.Position

	// Run and LatestRun return a run, also one started in this transaction, or ErrNotFound.
	Run(at posthaste.Position) (*posthaste.Run, error)
	LatestRun(id string) (*posthaste.Run, error)

	// Start writes a new run, which becomes the latest one with its id.
	Start(run *posthaste.Run)

	// Save writes a changed run. It may be called repeatedly.
	Save(run *posthaste.Run)

	// Log logs the run's state, as an event of a message of the run.
	Log(m *posthaste.Message, state posthaste.State, reason string)

	// Append appends an entry to a run's list, sets its index, and updates the run's counts. If m
	// is not nil, it is accepted as by Acceptor.Accept: it is the entry's message and shares its
	// body.
	Append(run *posthaste.Run, entry posthaste.RunEntry, m *posthaste.Message) error

	// PutIdempotencyRecord stores a message id under a key for as long as the run is stored.
	// IdempotencyRecord returns it, also within this transaction; ok is false if there is none.
	PutIdempotencyRecord(run *posthaste.Run, key string, id posthaste.MessageID)
	IdempotencyRecord(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error)

	// Entries returns the first count entries of a run's list as before this transaction, all if
	// count is negative.
	Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error)

	// Accept accepts a message of a run without appending an entry: a failure callback, or
	// another delivery of an entry, whose id and body it has.
	Accept(m *posthaste.Message) error

	// Message returns a message and its state as before this transaction, or ErrNotFound.
	Message(id posthaste.MessageID) (*posthaste.Message, posthaste.State, error)

	// CancelDeliveries cancels the run's messages that have not ended, except the one being
	// settled. Claimed messages are included if inFlight is true.
	CancelDeliveries(run *posthaste.Run, inFlight bool) error

	// Cancel cancels a message like Canceller.Cancel and reports whether it changed.
	Cancel(id posthaste.MessageID) (bool, error)

	// Wait registers a waiter and sets its position.
	Wait(w *posthaste.Waiter)

	// Waiter returns a waiter, or ErrNotFound; Waiters those of a topic and RunWaiters those of a
	// run, oldest first. Waiters ended in this transaction are left out.
	Waiter(run, at posthaste.Position) (*posthaste.Waiter, error)
	Waiters(topic posthaste.Topic) ([]*posthaste.Waiter, error)
	RunWaiters(run posthaste.Position) ([]*posthaste.Waiter, error)

	// EndWait removes a waiter.
	EndWait(w *posthaste.Waiter)

	// BufferEvent stores an event for a run, TakeEvent removes and returns the oldest one with an
	// id (ok is false if there is none), DropEvents removes all of a run. MoveEvents moves those
	// stored before this transaction to another run, which has none.
	BufferEvent(run posthaste.Position, eventID string, body []byte)
	TakeEvent(run posthaste.Position, eventID string) (body []byte, ok bool, err error)
	DropEvents(run posthaste.Position) error
	MoveEvents(from, to posthaste.Position) error

	// AddToDLQ adds an entry for a failed run: run.DeadLetterID is d.ID.
	AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter)

	// DLQEntry returns an entry and its run, or ErrNotFound. It also returns entries removed in
	// this transaction.
	DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error)

	// RemoveFromDLQ removes the entry of a run.
	RemoveFromDLQ(run *posthaste.Run)

	// CachedResponse returns the response stored under a key within ResponseWindow, nil if none.
	// CacheResponse stores one.
	CachedResponse(key string) ([]byte, error)
	CacheResponse(key string, answer []byte)

	// Advance counts a step of a bulk action; a nil step does nothing. It returns ErrNotFound for
	// an unknown action, ErrConflict for one that has ended.
	Advance(step *Step, processed int, failures []posthaste.ActionFailure) error
}

// ResponseWindow is how long a cached response is valid.
const ResponseWindow = 24 * time.Hour

// RunQuery selects runs by position and filter.
type RunQuery struct {
	Filter      posthaste.Filter
	Failed      bool               // entries of the DLQ of runs, by the position of the failure
	Low, High   posthaste.Position // of the run, or of its failure; both inclusive
	OldestFirst bool
	Limit       int  // maximum number of results, at least 1
	Bare        bool // without dead letters, which may be large
}

// RunPage is one page of results.
type RunPage struct {
	Runs        []*posthaste.Run
	DeadLetters []*posthaste.DeadLetter // of the runs, unless Bare or not Failed
	More        bool
	Next        posthaste.Position // as in EventPage
}
