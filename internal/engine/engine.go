// Package engine has the rules of delivery: what a publication becomes, when a message is
// attempted, and what the outcome means.
//
// All state is in the store, so an engine needs no recovery after a crash.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Dispatcher attempts to deliver a message once. If ctx ends first, the outcome is ignored.
type Dispatcher interface {
	Attempt(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome
}

// Runs has the rules for messages of workflow runs; it is called for no others.
type Runs interface {
	// Prepare returns a claimed message as it is sent, or nil if its run has ended and nobody
	// waits for the response.
	Prepare(ctx context.Context, m *posthaste.Message) (*posthaste.Message, error)

	// Settle returns the settlement of a message and its run.
	Settle(claim store.Claim, outcome posthaste.Outcome, now time.Time) store.Settlement
}

// Observer receives what the engine does. Its methods are called concurrently and must not block.
type Observer interface {
	// Accepted reports messages that became durable.
	Accepted(messages int)
	// AttemptStarted and AttemptFinished enclose each attempt. One abandoned at shutdown is
	// reported as ACTIVE.
	AttemptStarted()
	AttemptFinished(AttemptReport)
}

// AttemptReport describes a finished attempt.
type AttemptReport struct {
	Message   *posthaste.Message
	Retried   int
	StartedAt time.Time
	Outcome   posthaste.Outcome
	State     posthaste.State // new state of the message
	NextAt    time.Time       // next attempt; RETRY only
}

// Traces derives trace contexts from stored messages, so a crash breaks no trace.
type Traces interface {
	// Publish returns the context for the attempts of a new message: its publication, a child of
	// the message's context.
	Publish(m *posthaste.Message) posthaste.TraceContext
	// Published is called once a message is durable; parent is the parent of its publication.
	Published(m *posthaste.Message, parent posthaste.TraceContext)
	// Attempt returns the context of an attempt of a message.
	Attempt(m *posthaste.Message, retried int) posthaste.TraceContext
}

// Options configure an engine. Store and Dispatcher are required.
type Options struct {
	Store      store.Store
	Dispatcher Dispatcher
	Runs       Runs            // nil: no messages of runs
	Observer   Observer        // optional
	Missed     func(ticks int) // receives the number of ticks that created no message; optional
	Traces     Traces          // nil: messages keep their contexts
	Logger     *slog.Logger    // nil: slog.Default()

	Concurrency int               // maximum attempts in flight; 0: DefaultConcurrency
	Limits      Limits            // for publications
	Now         func() time.Time  // nil: time.Now
	Entropy     io.Reader         // for ids; nil: crypto/rand
	OwnSlot     posthaste.OwnSlot // nil: this node serves all slots

	Retention     Retention            // for users not in UserRetention
	UserRetention map[string]Retention // by user

	// ActionWorkers handles kinds of bulk actions that are not the engine's own.
	ActionWorkers map[posthaste.ActionKind]ActionWorker
}

// DefaultConcurrency is the default maximum of attempts in flight.
const DefaultConcurrency = 4096

// direct are the store's methods that need no rules.
type direct interface {
	Message(ctx context.Context, user string, id posthaste.MessageID) (store.Status, error)
	DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (store.DeadLetterPage, error)
	DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error)
	Queue(ctx context.Context, user, name string) (store.QueueStatus, error)
	Queues(ctx context.Context, user, after string) (store.List[store.QueueStatus], error)
	URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error)
	URLGroups(ctx context.Context, user, after string) (store.List[*posthaste.URLGroup], error)
	DeleteURLGroup(ctx context.Context, user, name string) error
	DeleteSchedule(ctx context.Context, user, id string) error
	DeleteFlowKey(ctx context.Context, user, key string) error
	Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error)
	Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error)
	Usage(ctx context.Context, user string) (store.Usage, error)
}

// Engine accepts publications and delivers messages. Use New.
type Engine struct {
	direct
	options Options

	claiming context.Context // ends when claiming stops
	stop     context.CancelFunc
	attempts context.Context // ends when attempts in flight are abandoned
	abandon  context.CancelFunc
	running  sync.WaitGroup

	actionWorkers   map[posthaste.ActionKind]ActionWorker
	own             ownActions
	scheduleChanged chan struct{}

	beforeStop cohort // attempts that started before Stop

	inflight atomic.Int64
	freed    chan struct{} // signals a free slot
	beat     atomic.Int64  // last round of the dispatch loop, Unix ms

	claimFailedAt time.Time // last claim.failed log line; dispatch loop only

	idle        atomic.Int64 // idle worker goroutines
	idleWorkers chan flight  // hands an attempt to an idle worker
}

// New returns an engine that accepts publications. Start starts delivery.
func New(options Options) *Engine {
	if options.Missed == nil {
		options.Missed = func(int) {}
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	options.Observer = cmp.Or[Observer](options.Observer, nobody{})
	options.Logger = cmp.Or(options.Logger, slog.Default())
	options.Concurrency = cmp.Or(options.Concurrency, DefaultConcurrency)
	options.Entropy = cmp.Or[io.Reader](options.Entropy, rand.Reader)
	e := &Engine{
		direct:          options.Store,
		options:         options,
		freed:           make(chan struct{}, 1),
		idleWorkers:     make(chan flight),
		scheduleChanged: make(chan struct{}, 1),
	}
	e.actionWorkers = map[posthaste.ActionKind]ActionWorker{
		posthaste.ActionCancel: cancelWorker{e},
		posthaste.ActionDelete: DLQWorker{e.DeadLetters, func(ctx context.Context, action *posthaste.BulkAction, ids []posthaste.DeadLetterID, progress store.Progress) error {
			_, err := e.options.Store.DeleteDeadLetters(ctx, action.User, ids, progress)
			return err
		}},
		posthaste.ActionRetry: DLQWorker{e.DeadLetters, func(ctx context.Context, action *posthaste.BulkAction, ids []posthaste.DeadLetterID, progress store.Progress) error {
			_, err := e.retry(ctx, action.User, ids, action.Overrides, progress)
			return err
		}},
	}
	maps.Copy(e.actionWorkers, options.ActionWorkers)
	e.claiming, e.stop = context.WithCancel(context.Background())
	e.attempts, e.abandon = context.WithCancel(context.Background())
	return e
}

// Start starts delivery and returns.
func (e *Engine) Start() {
	e.beat.Store(e.options.Now().UnixMilli())
	e.running.Go(e.dispatch)
	e.running.Go(e.schedule)
	e.running.Go(e.trim)
	e.running.Go(e.adoptOrphanedActions)
}

// Stop stops claiming and waits for the attempts in flight. Until those that started before the
// call have ended, other due messages are still delivered, so a hanging destination blocks no
// other; the last quarter of ctx's time is left to attempts that started after the call. When ctx
// ends, remaining attempts are abandoned: their messages are due again, and no retry is counted.
// Stop is idempotent.
func (e *Engine) Stop(ctx context.Context) {
	e.keepDelivering(ctx, e.beforeStop.close())
	e.stop()
	idle := make(chan struct{})
	go func() {
		e.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		e.abandon()
		<-idle
	}
	e.abandon()
}

// keepDelivering returns when ended is closed, or after three quarters of the time until ctx
// ends.
func (e *Engine) keepDelivering(ctx context.Context, ended <-chan struct{}) {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left-left/4)
		defer cancel()
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// cohort counts the attempts that started before close. The zero value is ready.
type cohort struct {
	mu       sync.Mutex
	inFlight int
	ended    chan struct{} // closed when all have ended; nil before close
}

// join counts an attempt and reports whether it started before close. If so, call leave at its
// end.
func (c *cohort) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return false
	}
	c.inFlight++
	return true
}

func (c *cohort) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	if c.inFlight == 0 && c.ended != nil {
		close(c.ended)
	}
}

// close stops counting new attempts. The returned channel closes when the counted ones have
// ended.
func (c *cohort) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = make(chan struct{})
		if c.inFlight == 0 {
			close(c.ended)
		}
	}
	return c.ended
}

// maxRound is the time after which a round of the dispatch loop counts as stalled.
const maxRound = 30 * time.Second

// ErrStalled is returned by Healthy.
var ErrStalled = errors.New("engine: the dispatcher settled still")

// Healthy returns ErrStalled if the dispatch loop of a started engine does not run.
func (e *Engine) Healthy() error {
	if e.options.Now().UnixMilli()-e.beat.Load() > maxRound.Milliseconds() {
		return ErrStalled
	}
	return nil
}

type nobody struct{}

func (nobody) Accepted(int)                  {}
func (nobody) AttemptStarted()               {}
func (nobody) AttemptFinished(AttemptReport) {}

// FailedForGood reports whether the attempt created an entry in a DLQ: that of runs for a message
// of a run, else that of messages. Failed calls whose SDK can handle the response, and failure
// callbacks, create none.
func (r AttemptReport) FailedForGood() bool {
	run := r.Message.Run
	switch {
	case r.State != posthaste.StateFailed:
		return false
	case run == nil:
		return true
	case run.CallType == posthaste.CallRequest:
		return !run.Features.Has(posthaste.FeatureNoDelete)
	default:
		return run.CallType != posthaste.CallFailure
	}
}
