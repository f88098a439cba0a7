// Package engine holds the rules of delivery: how a publication becomes
// messages, when they are attempted, and what an attempt's outcome means.
//
// It decides from what the store says and changes nothing except through the
// store, so it has no state worth recovering: an engine that starts after a
// crash is like any other engine.
package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Dispatcher makes one attempt to deliver a message. If ctx ends during the
// attempt its outcome is disregarded.
type Dispatcher interface {
	Attempt(ctx context.Context, m *posthaste.Message, retried int) posthaste.Outcome
}

// Runs decides what deliveries mean for the workflow runs they belong to. It is
// asked about messages of runs only.
type Runs interface {
	// Prepare returns a claimed message as it is to be sent, or nil when its run has
	// ended and nobody waits for the answer.
	Prepare(ctx context.Context, m *posthaste.Message) (*posthaste.Message, error)

	// Settle says what an attempt's outcome means for the message and its run.
	Settle(claim store.Claim, outcome posthaste.Outcome, now time.Time) store.Settlement
}

// Observer is told what the engine does. Its methods are called from many
// goroutines and must not block.
type Observer interface {
	// Accepted is called after messages became durable.
	Accepted(messages int)
	// AttemptStarted and AttemptFinished enclose each attempt; an attempt that is
	// abandoned at shutdown finishes with a report whose State is ACTIVE.
	AttemptStarted()
	AttemptFinished(AttemptReport)
}

// AttemptReport describes a finished attempt.
type AttemptReport struct {
	Message   *posthaste.Message
	Retried   int
	StartedAt time.Time
	Outcome   posthaste.Outcome
	State     posthaste.State // the state the message entered
	NextAt    time.Time       // of the next attempt; RETRY only
}

// Traces give what is delivered its place in traces. Contexts follow from what is
// stored, so a crash breaks no trace.
type Traces interface {
	// Publish returns the context that the attempts of a new message are part of: that
	// of its publication, which is itself part of the context that the message has.
	Publish(m *posthaste.Message) posthaste.TraceContext
	// Published is called after a message became durable; parent is what its
	// publication is part of.
	Published(m *posthaste.Message, parent posthaste.TraceContext)
	// Attempt returns the context of an attempt of a message.
	Attempt(m *posthaste.Message, retried int) posthaste.TraceContext
}

// Options configure an engine. Store and Dispatcher are required.
type Options struct {
	Store      store.Store
	Dispatcher Dispatcher
	Runs       Runs            // nil: there are no messages of runs
	Observer   Observer        // nil: nobody
	Missed     func(ticks int) // told of ticks that made no message; nil: nobody
	Traces     Traces          // nil: messages keep the contexts they are given
	Logger     *slog.Logger    // nil: slog.Default()

	Concurrency int              // attempts in flight; 0: DefaultConcurrency
	Limits      Limits           // what publishers may ask for
	Now         func() time.Time // nil: time.Now
	Entropy     io.Reader        // for ids; nil: crypto/rand

	Retention     Retention            // of users that are not in UserRetention
	UserRetention map[string]Retention // by user

	// ActionWorkers do kinds of bulk actions that are not the engine's own.
	ActionWorkers map[posthaste.ActionKind]ActionWorker

	// DecodeOverrides reads the overrides of a bulk action, which are kept as the
	// headers they came in. nil: there are none.
	DecodeOverrides func(http.Header) (Overrides, error)
}

// DefaultConcurrency is how many attempts may be in flight unless told otherwise.
const DefaultConcurrency = 4096

// Engine accepts publications and delivers messages. Make one with New.
type Engine struct {
	options Options

	claiming context.Context // ends when no more claims are to be made
	stop     context.CancelFunc
	attempts context.Context // ends when attempts in flight are to be abandoned
	abandon  context.CancelFunc
	running  sync.WaitGroup

	actionWorkers   map[posthaste.ActionKind]ActionWorker
	own             ownActions
	scheduleChanged chan struct{}

	beforeStop cohort // attempts that were in flight when Stop was called

	inflight atomic.Int64
	freed    chan struct{} // receives after an attempt gave its slot back
	beat     atomic.Int64  // when the dispatch loop last went round, Unix ms

	claimFailedAt time.Time // when that was last logged; of the dispatch loop alone

	resting atomic.Int64 // goroutines that wait for an attempt to make
	rested  chan flight  // takes one when such a goroutine is there to make it
}

// New returns an engine that accepts publications; Start makes it deliver.
func New(options Options) *Engine {
	if options.Missed == nil {
		options.Missed = func(int) {}
	}
	if options.Observer == nil {
		options.Observer = nobody{}
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.Concurrency == 0 {
		options.Concurrency = DefaultConcurrency
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Entropy == nil {
		options.Entropy = rand.Reader
	}
	if options.DecodeOverrides == nil {
		options.DecodeOverrides = func(http.Header) (Overrides, error) { return Overrides{}, nil }
	}
	e := &Engine{
		options:         options,
		freed:           make(chan struct{}, 1),
		rested:          make(chan flight),
		scheduleChanged: make(chan struct{}, 1),
	}
	e.actionWorkers = map[posthaste.ActionKind]ActionWorker{
		posthaste.ActionCancel: cancelWorker{e},
		posthaste.ActionDelete: deleteWorker{e},
		posthaste.ActionRetry:  retryWorker{e},
	}
	maps.Copy(e.actionWorkers, options.ActionWorkers)
	e.claiming, e.stop = context.WithCancel(context.Background())
	e.attempts, e.abandon = context.WithCancel(context.Background())
	return e
}

// Start begins to deliver. It returns at once.
func (e *Engine) Start() {
	e.beat.Store(e.options.Now().UnixMilli())
	e.running.Go(e.dispatch)
	e.running.Go(e.schedule)
	e.running.Go(e.trim)
	e.running.Go(e.takeUpActions)
}

// Stop waits for the attempts in flight and makes no more. While attempts that were in flight
// when it was called go on, due messages are still delivered beside them, so that a
// destination that hangs holds up no other; the last quarter of the time until ctx ends
// is left to attempts that began meanwhile. When ctx ends first, the attempts in flight are
// abandoned: their messages are due again for the next engine, and no retry is counted.
// Calling it twice is harmless.
func (e *Engine) Stop(ctx context.Context) {
	e.deliverBeside(ctx, e.beforeStop.close())
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

// deliverBeside lets the engine go on until ended is closed, or three quarters of the time
// until ctx ends have passed.
func (e *Engine) deliverBeside(ctx context.Context, ended <-chan struct{}) {
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

// cohort is the attempts that began before it was closed. The zero value is ready.
type cohort struct {
	mu       sync.Mutex
	inFlight int
	ended    chan struct{} // closed when all have ended; nil until the cohort is closed
}

// join counts an attempt and reports whether it belongs to the cohort; if so, leave is to
// be called at its end.
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

// close lets no more attempts join. It returns a channel that is closed when those of the
// cohort have ended.
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

// standstill is how long the dispatch loop may take for one round.
const standstill = 30 * time.Second

// ErrStandstill is returned by Healthy when the dispatch loop does not go round.
var ErrStandstill = errors.New("engine: the dispatcher stands still")

// Healthy returns ErrStandstill when no messages are being handed out though the
// engine was started.
func (e *Engine) Healthy() error {
	if e.options.Now().UnixMilli()-e.beat.Load() > standstill.Milliseconds() {
		return ErrStandstill
	}
	return nil
}

// InFlight returns the number of attempts in flight.
func (e *Engine) InFlight() int { return int(e.inflight.Load()) }

// nobody observes nothing.
type nobody struct{}

func (nobody) Accepted(int)                  {}
func (nobody) AttemptStarted()               {}
func (nobody) AttemptFinished(AttemptReport) {}
