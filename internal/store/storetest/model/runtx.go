package model

import (
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// runTx implements store.RunTx. It reads the model as it is and writes when
// nothing can fail any more.
type runTx struct {
	*Model
	now      time.Time
	user     string
	settling posthaste.MessageID // the message that is being settled, if any

	runs     map[posthaste.Position]*posthaste.Run // that were read or started
	started  map[string]posthaste.Position         // the latest with an id
	memory   map[memoryKey]posthaste.MessageID
	gone     map[posthaste.Position]bool // waiters, dead letters and events
	writings []func()
}

type memoryKey struct {
	run posthaste.Position
	key string
}

func (m *Model) newRunTx(now time.Time, user string) *runTx {
	return &runTx{
		Model:   m,
		now:     now,
		user:    user,
		runs:    map[posthaste.Position]*posthaste.Run{},
		started: map[string]posthaste.Position{},
		memory:  map[memoryKey]posthaste.MessageID{},
		gone:    map[posthaste.Position]bool{},
	}
}

// write registers something to be written, in order.
func (tx *runTx) write(writing func()) { tx.writings = append(tx.writings, writing) }

func (tx *runTx) commit() {
	for _, writing := range tx.writings {
		writing()
	}
}

// execution returns a run that was written.
func (tx *runTx) execution(at posthaste.Position) *execution {
	return tx.executions[runID{tx.user, at}]
}

// Now implements store.RunTx.
func (tx *runTx) Now() time.Time { return tx.now }

// NextPosition implements store.RunTx.
func (tx *runTx) NextPosition(slot posthaste.Slot) posthaste.Position {
	return tx.nextPosition(tx.now, slot)
}

// Run implements store.RunTx.
func (tx *runTx) Run(at posthaste.Position) (*posthaste.Run, error) {
	if run := tx.runs[at]; run != nil {
		return run, nil
	}
	run, err := tx.run(tx.user, at)
	if err == nil {
		tx.runs[at] = run
	}
	return run, err
}

// LatestRun implements store.RunTx.
func (tx *runTx) LatestRun(id string) (*posthaste.Run, error) {
	at, ok := tx.started[id]
	if !ok {
		at = tx.latest(tx.user, id)
	}
	return tx.Run(at)
}

// Start implements store.RunTx.
func (tx *runTx) Start(run *posthaste.Run) {
	tx.runs[run.Position] = run
	tx.started[run.ID] = run.Position
	tx.write(func() {
		tx.executions[runID{tx.user, run.Position}] = &execution{run: copyRun(run), memory: map[string]posthaste.MessageID{}}
	})
}

// Save implements store.RunTx.
func (tx *runTx) Save(run *posthaste.Run) {
	tx.write(func() { tx.execution(run.Position).run = copyRun(run) })
}

// Log implements store.RunTx.
func (tx *runTx) Log(m *posthaste.Message, state posthaste.State, reason string) {
	tx.write(func() {
		l := tx.find(tx.user, m.ID)
		if l == nil {
			l = &life{message: m} // it is accepted later
		}
		tx.append(tx.now, l, posthaste.Event{MessageID: m.ID, State: state, Error: reason})
	})
}

// Append implements store.RunTx.
func (tx *runTx) Append(run *posthaste.Run, entry posthaste.RunEntry, m *posthaste.Message) error {
	entry.Index = run.Entries
	run.Entries++
	run.ListBytes += len(entry.Body)
	tx.Save(run)
	tx.write(func() {
		x := tx.execution(run.Position)
		x.entries = append(x.entries, entry)
	})
	if m == nil {
		return nil
	}
	m.Run.Entry, m.Run.ListBytes, m.Body = entry.Index, run.ListBytes, entry.Body
	return tx.Accept(m)
}

// PutIdempotencyRecord implements store.RunTx.
func (tx *runTx) PutIdempotencyRecord(run *posthaste.Run, key string, id posthaste.MessageID) {
	tx.memory[memoryKey{run.Position, key}] = id
	tx.write(func() { tx.execution(run.Position).memory[key] = id })
}

// IdempotencyRecord implements store.RunTx.
func (tx *runTx) IdempotencyRecord(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error) {
	if id, ok = tx.memory[memoryKey{run.Position, key}]; ok {
		return id, true, nil
	}
	if x := tx.execution(run.Position); x != nil {
		id, ok = x.memory[key]
	}
	return id, ok, nil
}

// Entries implements store.RunTx.
func (tx *runTx) Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	return tx.entries(tx.user, run, count), nil
}

// Accept implements store.RunTx.
func (tx *runTx) Accept(m *posthaste.Message) error {
	tx.write(func() { tx.accept(tx.now, []*posthaste.Message{m}) })
	return nil
}

// Message implements store.RunTx.
func (tx *runTx) Message(id posthaste.MessageID) (*posthaste.Message, posthaste.State, error) {
	l := tx.find(tx.user, id)
	switch {
	case l == nil:
		return nil, "", store.ErrNotFound
	case l.lease != 0:
		return l.message, posthaste.StateActive, nil
	default:
		return l.message, l.state, nil
	}
}

// CancelDeliveries implements store.RunTx.
func (tx *runTx) CancelDeliveries(run *posthaste.Run, inFlight bool) error {
	ids := []posthaste.MessageID{run.FirstID}
	for _, entry := range tx.entries(tx.user, run.Position, -1) {
		ids = append(ids, entry.MessageID)
	}
	for _, id := range ids {
		l := tx.find(tx.user, id)
		if l == nil || id == tx.settling || l.lease != 0 && !inFlight {
			continue
		}
		tx.write(func() { tx.cancel(tx.now, l) })
	}
	return nil
}

// Cancel implements store.RunTx.
func (tx *runTx) Cancel(id posthaste.MessageID) (bool, error) {
	l := tx.find(tx.user, id)
	if l == nil || l.state.Terminal() || l.cancelRequested {
		return false, nil
	}
	tx.write(func() { tx.cancel(tx.now, l) })
	return true, nil
}

// Wait implements store.RunTx.
func (tx *runTx) Wait(w *posthaste.Waiter) {
	w.Position = tx.NextPosition(w.Run.Position.Slot())
	tx.write(func() { tx.waiters = append(tx.waiters, &waiter{*w, tx.user}) })
}

// Waiter implements store.RunTx.
func (tx *runTx) Waiter(run, at posthaste.Position) (*posthaste.Waiter, error) {
	waiters, _ := tx.RunWaiters(run)
	for _, w := range waiters {
		if w.Position == at {
			return w, nil
		}
	}
	return nil, store.ErrNotFound
}

// Waiters implements store.RunTx.
func (tx *runTx) Waiters(topic posthaste.Topic) ([]*posthaste.Waiter, error) {
	return tx.waiting(tx.waitersFor(tx.user, topic)), nil
}

// RunWaiters implements store.RunTx.
func (tx *runTx) RunWaiters(run posthaste.Position) ([]*posthaste.Waiter, error) {
	return tx.waiting(tx.waitersOf(tx.user, run)), nil
}

// waiting leaves out what this transaction has ended.
func (tx *runTx) waiting(all []*posthaste.Waiter) []*posthaste.Waiter {
	return slices.DeleteFunc(all, func(w *posthaste.Waiter) bool { return tx.gone[w.Position] })
}

// EndWait implements store.RunTx.
func (tx *runTx) EndWait(w *posthaste.Waiter) {
	tx.gone[w.Position] = true
	tx.write(func() {
		tx.waiters = slices.DeleteFunc(tx.waiters, func(other *waiter) bool {
			return other.user == tx.user && other.Position == w.Position
		})
	})
}

// BufferEvent implements store.RunTx.
func (tx *runTx) BufferEvent(run posthaste.Position, eventID string, body []byte) {
	event := keptEvent{tx.NextPosition(run.Slot()), eventID, body}
	tx.write(func() {
		x := tx.execution(run)
		x.events = append(x.events, event)
	})
}

// TakeEvent implements store.RunTx.
func (tx *runTx) TakeEvent(run posthaste.Position, eventID string) (body []byte, ok bool, err error) {
	x := tx.execution(run)
	if x == nil {
		return nil, false, nil
	}
	for _, event := range x.events {
		if event.id != eventID || tx.gone[event.at] {
			continue
		}
		tx.gone[event.at] = true
		tx.write(func() {
			x.events = slices.DeleteFunc(x.events, func(e keptEvent) bool { return e.at == event.at })
		})
		return event.body, true, nil
	}
	return nil, false, nil
}

// DropEvents implements store.RunTx.
func (tx *runTx) DropEvents(run posthaste.Position) error {
	tx.write(func() { tx.execution(run).events = nil })
	return nil
}

// MoveEvents implements store.RunTx.
func (tx *runTx) MoveEvents(from, to posthaste.Position) error {
	tx.write(func() {
		old, heir := tx.execution(from), tx.execution(to)
		heir.events, old.events = old.events, nil
	})
	return nil
}

// AddToDLQ implements store.RunTx.
func (tx *runTx) AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter) {
	tx.write(func() { tx.runDLQ = append(tx.runDLQ, &dlqEntry{d, runID{tx.user, run.Position}}) })
}

// DLQEntry implements store.RunTx.
func (tx *runTx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	for _, b := range tx.runDLQ {
		if b.ID == id && b.run.user == tx.user && !tx.gone[posthaste.Position(id)] {
			run, err := tx.Run(b.run.at)
			return b.DeadLetter, run, err
		}
	}
	return nil, nil, store.ErrNotFound
}

// RemoveFromDLQ implements store.RunTx.
func (tx *runTx) RemoveFromDLQ(run *posthaste.Run) {
	id := run.DeadLetterID
	tx.gone[posthaste.Position(id)] = true
	tx.write(func() {
		tx.runDLQ = slices.DeleteFunc(tx.runDLQ, func(b *dlqEntry) bool { return b.ID == id && b.run.user == tx.user })
	})
}

// CachedResponse implements store.RunTx.
func (tx *runTx) CachedResponse(key string) ([]byte, error) {
	kept, ok := tx.answers[name{tx.user, key}]
	if !ok || tx.now.Sub(kept.at) >= store.ResponseWindow {
		return nil, nil
	}
	return kept.data, nil
}

// CacheResponse implements store.RunTx.
func (tx *runTx) CacheResponse(key string, data []byte) {
	tx.write(func() { tx.answers[name{tx.user, key}] = answer{tx.now, data} })
}

// Advance implements store.RunTx.
func (tx *runTx) Advance(step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	if err := tx.checkStep(tx.user, step); err != nil {
		return err
	}
	tx.write(func() { tx.advance(tx.user, step, processed, failures) })
	return nil
}
