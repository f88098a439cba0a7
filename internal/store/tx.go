package store

import (
	"context"
	"errors"
	"time"

	"posthaste"
)

// Backend keeps records, messages with their places in lanes, and the log. It decides nothing that
// a user could notice: the rules of delivery are in package ledger, which makes a Store of it.
//
// Backend with Log, Reader and Tx is all that a backend implements.
type Backend interface {
	// Update calls change and makes what it wrote durable in one commit, unless it returns an
	// error: then nothing happened, and Update returns that error. change may be called more than
	// once, and only its last call counts; it is not called any more when Update has returned. It
	// must be quick, must not block, and must have no other side effects.
	Update(ctx context.Context, now time.Time, scope Scope, change func(Tx) error) error

	// View calls read with what is durable. Reads may see different moments.
	View(ctx context.Context, scope Scope, read func(Reader) error) error

	// Due returns up to limit records of a kind whose Found.DueAt has passed, of all users except
	// some, the earliest first, and when the next other one is due: zero if there is none, now or
	// earlier if limit left some behind. A record may have changed since it was found due.
	Due(ctx context.Context, kind ItemKind, now time.Time, limit int, except ...string) (due []Record, next time.Time, err error)

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
	// attempts. Claims that are not current are skipped.
	Release(ctx context.Context, now time.Time, claims []Claim) error

	Log

	// Watch returns the end of a user's log, and a channel that closes when the log may have
	// grown or the store is closed.
	//
	// Events already shows what is at or below end, also after a crash; later events are above
	// it. So a reader that reads up to end and then waits misses nothing. Waiting readers do not
	// slow down writers.
	Watch(ctx context.Context, user string) (end posthaste.Position, grown <-chan struct{}, err error)

	// LiveMessages returns up to query.Limit ids of matching messages that have not ended, whose
	// cancellation was not requested and that belong to no run. The work of one call is bounded:
	// continue with the cursor until it is empty. If only the messages of one queue match, others
	// cost nothing. A message whose place changes meanwhile may be missed.
	LiveMessages(ctx context.Context, user string, query LiveQuery) (ids []posthaste.MessageID, cursor string, err error)

	// TryLease leases a job to the caller for a time and reports whether it succeeded. The owner
	// may renew it; others get it when it expires or its owner has ended. A job must be safe to
	// run twice: it may outlive its lease.
	TryLease(ctx context.Context, job string, held time.Duration) (bool, error)

	// DropDays removes what a user's log has of days that ended before a time, except messages
	// that have not ended and the first ones of active runs. It returns the number of days that
	// had entries. It takes several commits, so it may have removed something when it returns an
	// error.
	DropDays(ctx context.Context, user string, before time.Time) (days int, err error)

	// Usage returns what a user has stored and in flight, or the totals across users if user is
	// empty; Oldest is the minimum. It is cheap enough to be called every few seconds.
	Usage(ctx context.Context, user string) (Usage, error)

	// Ping returns once an empty commit is durable, or why writes fail.
	Ping(ctx context.Context) error

	// Stats returns counts and sizes. It is cheap enough to be called every few seconds.
	Stats(ctx context.Context, now time.Time) (Stats, error)

	// Export yields everything that is stored, ordered by kind, then for each user by key.
	// Backends with the same content yield the same items, except for the order of users. Claimed
	// messages are exported as released, expired submissions and responses are left out. An item
	// is valid until yield returns. Nothing else may use a backend during Export and Import.
	Export(ctx context.Context, now time.Time, yield func(Item) error) error

	// Import adds items, in the order of their export, in one commit. Close and reopen the
	// backend before using it.
	Import(ctx context.Context, items []Item) error

	// Close releases all leases. Calls in progress return ErrClosed. It is idempotent.
	Close() error
}

// Scope is what a transaction is about.
type Scope struct {
	User string
	Hint Hint

	Partitions Partitions // into how many the caller takes the user to be divided; 0: the caller does not care
}

// Hint names what a transaction is going to read, so that a backend can fetch it in one round
// trip. It has no other effect: anything may be read without it.
type Hint struct {
	Records  []RecordKey
	Places   []posthaste.MessageID
	Messages []posthaste.MessageID
	Accepts  []*posthaste.Message // that it is going to accept
}

// RecordKey names a record of a user.
type RecordKey struct {
	Kind ItemKind
	Key  []byte
}

// Record is a record of a user.
type Record struct {
	User string
	RecordKey
	Value []byte
}

// Reader reads what belongs to the user of a Scope.
type Reader interface {
	// Fetch reads what the hint names in one round trip. See Hint.
	Fetch(hint Hint) error

	// Get returns the value of a record, which must not be changed, or ErrNotFound.
	Get(kind ItemKind, key []byte) ([]byte, error)

	// Scan visits, in order, the records of a kind whose keys begin with a prefix and come after a
	// key: at least one if there is one, and no more than limit or about PageBytes. more reports
	// whether it left some out. Key and value are valid until visit returns; visit must not read.
	// An error of visit ends the scan and is returned.
	Scan(kind ItemKind, prefix, after []byte, limit int, visit func(key, value []byte) error) (more bool, err error)

	// Find visits the records that a query selects, with the promises of Log.Events. visit
	// returns whether it had no room for the record: then that is where the next page begins. It
	// must not read.
	Find(query FindQuery, visit func(at posthaste.Position, value []byte) (full bool, err error)) (next posthaste.Position, more bool, err error)

	// Message returns a message, which must not be changed, ErrNotFound, or ErrUnreadable for a
	// damaged one, which the backend counts in Stats.SetAside. Fetch passes over damaged ones.
	Message(id posthaste.MessageID) (*posthaste.Message, error)

	// Place returns where a message stands, as long as it is stored, or ErrNotFound. In an Update,
	// no claim begins or ends between this and the commit.
	Place(id posthaste.MessageID) (*Place, error)

	// LaneLengths returns for each lane how many of its messages have not ended. An Update does not
	// see its own writes here.
	LaneLengths(lanes []posthaste.Lane) ([]int, error)

	// UnderKeys counts for each flow-control key the messages that name it, but does not see what an
	// Update wrote. Of those that wait in a lane, or in all queues, it may look only at a number.
	UnderKeys(keys []string, dueBy time.Time, atMost int) ([]KeyUse, error)
}

// KeyUse counts messages under a flow-control key that have not ended.
type KeyUse struct {
	InFlight int // attempts
	Waiting  int // not in flight, and due by a time; may be negative if some were claimed meanwhile
}

// FindQuery selects records whose keys are positions.
type FindQuery struct {
	Kind        ItemKind
	Terms       [][]Term             // of each list, a record has a term; hashes may collide, so compare what was found
	At          []posthaste.Position // if not empty: no other records
	Low, High   posthaste.Position   // both inclusive
	OldestFirst bool
	Limit       int // about how many records will be visited, at least 1
}

// Tx changes what belongs to the user of a Scope. Its reads see its writes, except those of Find.
type Tx interface {
	Reader

	// NextPosition returns a unique position above those of all events, in a slot.
	NextPosition(posthaste.Slot) posthaste.Position

	// Put writes a record. was is what it was found by until now (nothing, if it is new), is what
	// it is found by from now on.
	//
	// What limits messages applies at once: queues (ItemQueue) and flow-control keys (ItemFlowKey).
	// Get returns a flow-control key with its window as of now; a changed window replaces it.
	Put(kind ItemKind, key, value []byte, was, is Found)

	// Delete deletes a record, if there is one. was is what it was found by.
	Delete(kind ItemKind, key []byte, was Found)

	// DeleteBefore deletes the records of a kind whose keys come before one, and by which nothing is
	// found. Reads of the transaction may still see them.
	DeleteBefore(kind ItemKind, before []byte)

	// Count changes what Backend.Usage returns for the kind of a record: ItemDeadLetter, ItemRun, or
	// ItemRunDeadLetter.
	Count(of RecordKey, entries, bytes int)

	// Log adds an event of a message to the log, at a position in the slot of the message.
	Log(m *posthaste.Message, event posthaste.Event) posthaste.Position

	// Accept stores a new message with its place.
	Accept(m *posthaste.Message, place Place)

	// Save writes the changed place of a message. A Lease set to 0 ends the claim. A message that
	// has ended leaves its lane, unless it lingers.
	Save(m *posthaste.Message, place *Place)

	// CheckSpace returns an Error with CodeUnavailable while the disk is too full for new work.
	CheckSpace() error
}

// ErrStop can be returned by a visitor to end a scan; Scan returns it.
var ErrStop = errors.New("store: stop")

// Found is what a record can be found by, other than its key.
type Found struct {
	DueAt time.Time // by Backend.Due; zero: never
	Terms []Term    // by Reader.Find; the key must be a position of 8 bytes
}

// Term is a value of a field that something is found by. Values are hashed, see package index.
type Term struct {
	Field byte   // below 128
	Hash  uint64 // of 56 bits
}

// Place is where a message stands: in its lane, until it has ended.
type Place struct {
	State           posthaste.State // CREATED or RETRY while it waits or is claimed, or how it ended
	Order           posthaste.Position
	DueAt           time.Time // of the next attempt
	Retried         int       // failed attempts
	CancelRequested bool
	Callbacks       int    // of a message in a queue: callbacks that have not ended
	Lingers         bool   // in a queue: it has ended, but keeps its slot until its callbacks have
	Lease           uint64 // of its claim; 0: not claimed
}

// Waits reports whether the message has not ended and is not claimed.
func (p *Place) Waits() bool { return !p.State.Terminal() && p.Lease == 0 }
