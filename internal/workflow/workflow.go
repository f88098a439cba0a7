// Package workflow holds the rules of durable workflow runs.
//
// A run is a list that only grows: the initial payload and one entry for each step
// that is planned or done. Every delivery to the workflow is an ordinary message of
// the engine, whose body is that list up to the message's own entry; the SDK at the
// destination replays it, does the first step that is missing and publishes what
// came of it, which is the next entry. Nothing of a run lives in memory: each thing
// that happens is one transaction of the store, and the messages it makes are
// delivered, retried and logged by the engine like all others.
//
// A run begins in trigger.go, grows in append.go, waits in wait.go and invoke.go,
// is delivered by delivery.go, concluded by settle.go and end.go, and rises again in
// restart.go and resume.go. Section numbers are those of the contract on workflows.
package workflow

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// Store is what the rules need of a store.
type Store interface {
	store.Runs
	store.Waiters
}

// Options configure a Service. Store is required.
type Options struct {
	Store    Store
	Accepted func(messages int)       // called after messages became durable; nil: nobody is told
	Moved    func(posthaste.RunState) // called after a run began, or ended other than by a failed delivery; nil: nobody is told
	Traces   engine.Traces            // nil: messages keep the contexts they are given
	Logger   *slog.Logger             // nil: slog.Default()

	Limits        engine.Limits // what each message may ask for
	LazyThreshold int           // bytes of a body from which an SDK that can is made to fetch it; 0: DefaultLazyThreshold
	MaxEntries    int           // entries of a run's list from which its endpoint may add no more; 0: no bound

	Now     func() time.Time // nil: time.Now
	Entropy io.Reader        // for ids; nil: crypto/rand
}

// DefaultLazyThreshold is 3 MiB.
const DefaultLazyThreshold = 3 << 20

// MaxStep returns the most bytes that the result of a step has whose SDK was handed an
// answer of so many bytes: text within JSON within JSON, in which a byte takes up to seven
// (\\u00e9, and the backslash once more), and the headers of the answer.
func MaxStep(answer int64) int64 { return 7*answer + 1<<20 }

// maxInvokeDepth is how deep runs may invoke runs.
const maxInvokeDepth = 100

// Service starts runs and moves them on. Make one with New.
type Service struct {
	options Options

	waiting context.Context // ends when no more deadlines are to be watched
	stop    context.CancelFunc
	running sync.WaitGroup
	changed chan struct{} // receives after a deadline was set
}

// New returns a service; Start makes it watch deadlines.
func New(options Options) *Service {
	if options.Accepted == nil {
		options.Accepted = func(int) {}
	}
	if options.Moved == nil {
		options.Moved = func(posthaste.RunState) {}
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.LazyThreshold == 0 {
		options.LazyThreshold = DefaultLazyThreshold
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Entropy == nil {
		options.Entropy = rand.Reader
	}
	s := &Service{options: options, changed: make(chan struct{}, 1)}
	s.waiting, s.stop = context.WithCancel(context.Background())
	return s
}

// Start begins to watch deadlines. It returns at once.
func (s *Service) Start() { s.running.Go(s.watchDeadlines) }

// Stop watches no more deadlines. Calling it twice is harmless.
func (s *Service) Stop() {
	s.stop()
	s.running.Wait()
}

// now returns the present time to the millisecond, the precision of everything that
// is stored.
func (s *Service) now() time.Time { return s.options.Now().Truncate(time.Millisecond) }

func (s *Service) newMessageID(now time.Time) (posthaste.MessageID, error) {
	id, err := posthaste.NewMessageID(now, s.options.Entropy)
	if err != nil {
		return id, fmt.Errorf("make message id: %w", err)
	}
	return id, nil
}

// newRunID makes a run id that nobody can guess.
func (s *Service) newRunID() (string, error) {
	var random [12]byte
	if _, err := io.ReadFull(s.options.Entropy, random[:]); err != nil {
		return "", fmt.Errorf("make run id: %w", err)
	}
	return "wfr_" + hex.EncodeToString(random[:]), nil
}

// transact runs a change of one user's runs and tells of the messages it made.
func (s *Service) transact(ctx context.Context, user string, change func(*tx) error) error {
	var done *tx
	err := s.options.Store.Transact(ctx, s.now(), user, func(storeTx store.RunTx) error {
		done = &tx{RunTx: storeTx, service: s, user: user, portion: store.NewBatchLimit()}
		return change(done)
	})
	if err == nil {
		done.tell()
	}
	return err
}

// tx is a transaction with what the rules need to make messages.
type tx struct {
	store.RunTx
	portion  store.BatchLimit
	service  *Service
	user     string
	accepted int
	begun    []begunRun
	moved    []posthaste.RunState // that runs entered
}

// begunRun is a run that was begun, for its trace.
type begunRun struct {
	first  *posthaste.Message
	parent posthaste.TraceContext // what the beginning is part of
}

// tell tells of what became durable.
func (t *tx) tell() {
	if t.accepted > 0 {
		t.service.options.Accepted(t.accepted)
	}
	for _, state := range t.moved {
		t.service.options.Moved(state)
	}
	for _, begun := range t.begun {
		t.service.options.Traces.Published(begun.first, begun.parent)
	}
}

// trace gives a new run its place in a trace, and with it all that follows.
func (t *tx) trace(run *posthaste.Run, first *posthaste.Message) {
	traces := t.service.options.Traces
	if traces == nil {
		return
	}
	t.begun = append(t.begun, begunRun{first, first.Trace})
	first.Trace = traces.Publish(first)
	run.Trace = first.Trace
}

// active returns the run that goes on under an id. It returns store.ErrNotFound if
// there is none, or if it is not the one that was created at the given time, which
// is zero if it was not given (decision 18 of the contract on workflows).
func (t *tx) active(id string, createdAt time.Time) (*posthaste.Run, error) {
	run, err := t.LatestRun(id)
	if err != nil {
		return nil, err
	}
	if !run.Active() || !createdAt.IsZero() && !createdAt.Equal(run.CreatedAt) {
		return nil, store.ErrNotFound
	}
	return run, nil
}

// goesOnAs returns a run itself if it goes on, and otherwise the run that has resumed it,
// however often that was: what the outside was told of the failed run still holds. It
// returns store.ErrNotFound if there is none (contract, decision 33).
func (t *tx) goesOnAs(run *posthaste.Run) (_ *posthaste.Run, err error) {
	for !run.Active() {
		if run.Successor == nil {
			return nil, store.ErrNotFound
		}
		if run, err = t.Run(run.Successor.Position); err != nil {
			return nil, err
		}
		if run.Origin == nil || !run.Origin.Resumed {
			return nil, store.ErrNotFound
		}
	}
	return run, nil
}

// mustBeActive is active for those who work for a run: that it has ended is for
// them to know (section 3.6).
func (t *tx) mustBeActive(id string, createdAt time.Time) (*posthaste.Run, error) {
	run, err := t.active(id, createdAt)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notActive(id)
	}
	return run, err
}

func notActive(id string) error {
	return posthaste.Errorf(posthaste.CodeEnded, "workflow run %.200q is not active: it has ended, or never existed", id)
}

// checkRoom returns an Error with CodeLimit for a run whose list may not grow. An
// endpoint is told, and lets its run fail; what the server itself adds to a list is
// never refused, for nobody could be told.
func (t *tx) checkRoom(run *posthaste.Run) error {
	if limit := t.service.options.MaxEntries; limit > 0 && run.Entries >= limit {
		return posthaste.Errorf(posthaste.CodeLimit, "workflow run %.200q has %d entries in its list, the limit is %d", run.ID, run.Entries, limit)
	}
	return nil
}

// append adds an entry to a run's list with a new message that delivers it.
func (t *tx) append(run *posthaste.Run, callType posthaste.CallType, m *posthaste.Message) error {
	t.accepted++
	return t.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: callType, Body: m.Body}, m)
}

// accept accepts a message that is no new entry.
func (t *tx) accept(m *posthaste.Message) error {
	t.accepted++
	return t.Accept(m)
}

// newMessage makes a message of a run with a new id.
func (t *tx) newMessage(run *posthaste.Run, callType posthaste.CallType, url string, body []byte, settings posthaste.Settings) (*posthaste.Message, error) {
	id, err := t.service.newMessageID(t.Now())
	if err != nil {
		return nil, err
	}
	settings.Trace = cmp.Or(settings.Trace, run.Trace)
	return &posthaste.Message{
		ID:        id,
		User:      t.user,
		URL:       url,
		Body:      body,
		CreatedAt: t.Now(),
		NotBefore: t.Now(),
		CallerIP:  run.CallerIP,
		Run:       &posthaste.RunLink{RunRef: run.RunRef, CallType: callType, Features: run.Features},
		Settings:  t.service.options.Limits.WithDefaults(settings),
	}, nil
}

// logRun adds a run's state to the log.
func (t *tx) logRun(run *posthaste.Run, reason string) {
	t.Log(&posthaste.Message{
		ID:       run.FirstID,
		User:     t.user,
		URL:      run.URL,
		CallerIP: run.CallerIP,
		Run:      &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallStep},
		Settings: posthaste.Settings{Labels: run.Labels, FlowControl: run.FlowControl},
	}, posthaste.State(run.State), reason)
}
