// Package workflow has the rules of durable workflow runs.
//
// A run is an append-only list: the payload, and an entry for each planned or completed step. A
// delivery to the workflow is an ordinary message with the list up to its entry; the SDK at the
// destination replays it, runs the first missing step and publishes its result as the next entry.
// All state is in the store; each event is one transaction.
//
// A run starts in trigger.go, grows in append.go, waits in wait.go and invoke.go, is delivered by
// delivery.go, ends in settle.go and end.go, and restarts in restart.go and resume.go. Section
// numbers are those of the contract on workflows.
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

// Options configure a Service. Store is required.
type Options struct {
	Store    store.Runs
	Accepted func(messages int)       // receives the number of messages that became durable; optional
	Moved    func(posthaste.RunState) // receives states that runs entered, except by a failed delivery; optional
	Traces   engine.Traces            // nil: messages keep their contexts
	Logger   *slog.Logger             // nil: slog.Default()

	Limits        engine.Limits // for each message
	LazyThreshold int           // bytes from which an SDK has to fetch a list; 0: DefaultLazyThreshold
	MaxEntries    int           // entries of a list from which its endpoint may append no more; 0: unlimited

	Now     func() time.Time  // nil: time.Now
	Entropy io.Reader         // for ids; nil: crypto/rand
	OwnSlot posthaste.OwnSlot // nil: this node serves all slots
}

// DefaultLazyThreshold is 3 MiB.
const DefaultLazyThreshold = 3 << 20

// MaxStep returns the maximum size of a step whose SDK received a response of the given size:
// text within JSON within JSON, up to seven bytes for one (\\u00e9, escaped again), plus headers.
func MaxStep(answer int64) int64 { return 7*answer + 1<<20 }

// maxInvokeDepth limits nested invocations.
const maxInvokeDepth = 100

// Service applies the rules to runs. Use New.
type Service struct {
	options Options
	lists   lists

	waiting context.Context // ends when deadlines are no longer watched
	stop    context.CancelFunc
	running sync.WaitGroup
	changed chan struct{} // signals a new deadline
}

// New returns a service. Start starts watching deadlines.
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

// Start starts watching deadlines and returns.
func (s *Service) Start() { s.running.Go(s.watchDeadlines) }

// Stop stops watching deadlines. It is idempotent.
func (s *Service) Stop() {
	s.stop()
	s.running.Wait()
}

// now returns the time in milliseconds, the precision of the store.
func (s *Service) now() time.Time { return s.options.Now().Truncate(time.Millisecond) }

func (s *Service) newMessageID(now time.Time) (posthaste.MessageID, error) {
	id, err := posthaste.NewMessageID(now, s.options.Entropy)
	if err != nil {
		return id, fmt.Errorf("make message id: %w", err)
	}
	return id, nil
}

// newRunID returns an unguessable run id, of a run in a slot that this node serves.
func (s *Service) newRunID(user string) (string, error) {
	for {
		var random [12]byte
		if _, err := io.ReadFull(s.options.Entropy, random[:]); err != nil {
			return "", fmt.Errorf("make run id: %w", err)
		}
		id := "wfr_" + hex.EncodeToString(random[:])
		if slot := posthaste.SlotOf(id); s.options.OwnSlot == nil || s.options.OwnSlot(user, slot) == slot {
			return id, nil
		}
	}
}

// transact runs a transaction and reports its messages.
func (s *Service) transact(ctx context.Context, user string, change func(*tx) error) error {
	var done *tx
	err := s.options.Store.Transact(ctx, s.now(), user, func(storeTx store.RunTx) error {
		done = &tx{RunTx: storeTx, service: s, user: user, batch: store.NewBatchLimit()}
		return change(done)
	})
	if err == nil {
		done.reportDurable()
	}
	return err
}

// tx is a transaction with what is needed to make messages.
type tx struct {
	store.RunTx
	batch    store.BatchLimit
	service  *Service
	user     string
	accepted int
	begun    []begunRun
	moved    []posthaste.RunState // states that runs entered
}

// begunRun is a started run, for its trace.
type begunRun struct {
	first  *posthaste.Message
	parent posthaste.TraceContext // parent context of the start
}

// reportDurable reports what became durable.
func (t *tx) reportDurable() {
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

// trace sets the trace context of a new run.
func (t *tx) trace(run *posthaste.Run, first *posthaste.Message) {
	traces := t.service.options.Traces
	if traces == nil {
		return
	}
	t.begun = append(t.begun, begunRun{first, first.Trace})
	first.Trace = traces.Publish(first)
	run.Trace = first.Trace
}

// active returns the active run with an id, created at createdAt if that is not zero (decision 18
// of the contract on workflows), or store.ErrNotFound.
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

// activeSuccessor returns the run if it is active, else the active one that resumed it, because
// what others know of the failed run still applies. It returns store.ErrNotFound if there is none
// (contract, decision 33).
func (t *tx) activeSuccessor(run *posthaste.Run) (_ *posthaste.Run, err error) {
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

// mustBeActive is active with the error for endpoints of runs (section 3.6).
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

// checkEntryLimit returns an Error with CodeLimit if the list is full. It applies to endpoints;
// the server's own entries are never rejected.
func (t *tx) checkEntryLimit(run *posthaste.Run) error {
	if limit := t.service.options.MaxEntries; limit > 0 && run.Entries >= limit {
		return posthaste.Errorf(posthaste.CodeLimit, "workflow run %.200q has %d entries in its list, the limit is %d", run.ID, run.Entries, limit)
	}
	return nil
}

// append appends an entry and accepts its message.
func (t *tx) append(run *posthaste.Run, callType posthaste.CallType, m *posthaste.Message) error {
	t.accepted++
	return t.Append(run, posthaste.RunEntry{MessageID: m.ID, CallType: callType, Body: m.Body}, m)
}

// accept accepts a message without new entry.
func (t *tx) accept(m *posthaste.Message) error {
	t.accepted++
	return t.Accept(m)
}

// newMessage makes a message of a run.
func (t *tx) newMessage(run *posthaste.Run, callType posthaste.CallType, url string, body []byte, settings posthaste.Settings) (*posthaste.Message, error) {
	id, err := t.service.newMessageID(t.Now())
	if err != nil {
		return nil, err
	}
	settings.Trace = cmp.Or(settings.Trace, run.Trace)
	m := &posthaste.Message{
		ID:        id,
		User:      t.user,
		URL:       url,
		Body:      body,
		CreatedAt: t.Now(),
		NotBefore: t.Now(),
		CallerIP:  run.CallerIP,
		Run:       &posthaste.RunLink{RunRef: run.RunRef, CallType: callType, Features: run.Features},
		Settings:  t.service.options.Limits.WithDefaults(settings),
	}
	m.SetSlot(nil)
	return m, nil
}

// logRun logs a run's state.
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

// forEach calls do for things, at least the first one, until the transaction's batch is full. It
// returns the remaining ones.
func forEach[T any](t *tx, things []T, do func(T) error) (remaining []T, err error) {
	for i, thing := range things {
		if i > 0 && t.batch.Full() {
			return things[i:], nil
		}
		if err := do(thing); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Entries counts the bytes of store.RunTx.Entries.
func (t *tx) Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	entries, err := t.RunTx.Entries(run, count)
	for _, entry := range entries {
		t.batch.Take(len(entry.Body))
	}
	return entries, err
}

// DLQEntry counts the bytes of store.RunTx.DLQEntry.
func (t *tx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	letter, run, err := t.RunTx.DLQEntry(id)
	if err == nil {
		t.batch.Take(store.DeadLetterSize(letter) + store.RunSize(run))
	}
	return letter, run, err
}

// changeEach changes as many things as fit in one commit and advances the bulk action, if progress
// returns a step. do reports whether it changed the thing; one that no longer exists is skipped.
func changeEach[T any](ctx context.Context, s *Service, user string, things []T, progress func(remaining []T) *store.Step,
	do func(t *tx, thing T) (changed bool, err error),
) (changed int, remaining []T, err error) {
	err = s.transact(ctx, user, func(t *tx) (err error) {
		changed = 0
		remaining, err = forEach(t, things, func(thing T) error {
			done, err := do(t, thing)
			if done {
				changed++
			}
			if !done && errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		return t.Advance(progress(remaining), changed, nil)
	})
	if err != nil {
		return 0, nil, err
	}
	return changed, remaining, nil
}

// noStep is the progress of a change outside bulk actions.
func noStep[T any]([]T) *store.Step { return nil }
