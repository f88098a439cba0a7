package lsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// runTx implements store.RunTx. It reads the commit so far, stages its writes, and writes them
// once nothing can fail any more: a failed transaction leaves nothing behind in the commit.
type runTx struct {
	store *Store
	c     *commit
	now   time.Time
	user  string

	settling posthaste.MessageID // the message that is being settled, if any

	runs   map[posthaste.Position]*heldRun
	dirty  []*heldRun // those to be saved
	latest map[string]posthaste.Position
	memory map[memoryKey]posthaste.MessageID
	ended  map[posthaste.Position]bool // waiters, and entries of the DLQ
	left   []posthaste.Position        // entries of the DLQ that leave it
	kept   [][]byte                    // keys of events that this transaction keeps
	taken  map[string]bool             // events that were kept before
	writes []func()

	removed removals // entries of the DLQ and their postings, once it is written
}

// heldRun is a run that the transaction has read or started.
type heldRun struct {
	run      *posthaste.Run
	envelope []byte       // as stored; nil for a new run
	indexed  []store.Term // as stored
	callback posthaste.CallbackState
	dirty    bool
	refile   bool // its entry in the DLQ is to be found by another callback state
}

type memoryKey struct {
	run posthaste.Position
	key string
}

func (s *Store) newRunTx(c *commit, now time.Time, user string) *runTx {
	return &runTx{
		store:  s,
		c:      c,
		now:    now,
		user:   user,
		runs:   map[posthaste.Position]*heldRun{},
		latest: map[string]posthaste.Position{},
		memory: map[memoryKey]posthaste.MessageID{},
		ended:  map[posthaste.Position]bool{},
		taken:  map[string]bool{},

		removed: removals{},
	}
}

// stage registers something to be written, in order.
func (tx *runTx) stage(write func()) { tx.writes = append(tx.writes, write) }

// seal reads what write needs. Nothing is read or changed after it. A new run that no
// other one waits for needs room on the disk.
func (tx *runTx) seal() (err error) {
	for _, held := range tx.dirty {
		if held.envelope == nil && held.run.Invoker == nil {
			err = tx.store.reserve.check()
		}
		if err != nil {
			return err
		}
		if held.refile, err = tx.refiles(held); err != nil {
			return err
		}
	}
	for _, letter := range tx.left {
		there, err := tx.inDLQ(letter)
		if err != nil {
			return err
		}
		if there {
			tx.stage(func() { tx.c.count(appendCountKey(nil, countedFailedRuns, tx.user), -1) })
		}
	}
	return nil
}

// write applies the staged writes.
func (tx *runTx) write() {
	for _, write := range tx.writes {
		write()
	}
	if len(tx.removed) > 0 {
		tx.removed.write(tx.c.records(), tx.c.writableRecords())
	}
	for _, held := range tx.dirty {
		tx.writeRun(held)
	}
}

// Now implements store.RunRecords.
func (tx *runTx) Now() time.Time { return tx.now }

// NextPosition implements store.RunRecords. A position that is not used is of no
// harm.
func (tx *runTx) NextPosition() posthaste.Position {
	tx.c.last = tx.c.last.Next(tx.now)
	return tx.c.last
}

// Run implements store.RunRecords.
func (tx *runTx) Run(at posthaste.Position) (*posthaste.Run, error) {
	if held := tx.runs[at]; held != nil {
		return held.run, nil
	}
	run, err := readRun(tx.c.records(), tx.user, at)
	if err != nil {
		return nil, err
	}
	held := &heldRun{run: run, envelope: record.AppendRun(nil, run), indexed: index.Run(run), callback: run.CallbackState()}
	tx.runs[at] = held
	return run, nil
}

// LatestRun implements store.RunRecords.
func (tx *runTx) LatestRun(id string) (*posthaste.Run, error) {
	at, ok := tx.latest[id]
	if !ok {
		var err error
		if at, err = readLatest(tx.c.records(), tx.user, id); err != nil {
			return nil, err
		}
	}
	return tx.Run(at)
}

// Start implements store.RunRecords.
func (tx *runTx) Start(run *posthaste.Run) {
	tx.runs[run.Position] = &heldRun{run: run}
	tx.latest[run.ID] = run.Position
	tx.Save(run)
	tx.stage(func() {
		tx.c.setRecord(append(appendRunPart(nil, runLatest, tx.user), run.ID...), binary.BigEndian.AppendUint64(nil, uint64(run.Position)))
		tx.c.count(appendCountKey(nil, countedRuns, tx.user), 1)
	})
}

// Save implements store.RunRecords.
func (tx *runTx) Save(run *posthaste.Run) {
	held := tx.runs[run.Position]
	if !held.dirty {
		held.dirty = true
		tx.dirty = append(tx.dirty, held)
	}
}

// writeRun writes those records and postings of a run that have changed.
func (tx *runTx) writeRun(held *heldRun) {
	run := held.run
	envelope := record.AppendRun(nil, run)
	if !bytes.Equal(envelope, held.envelope) {
		tx.c.setRecord(appendRunKey(nil, runEnvelope, tx.user, run.Position), envelope)
	}
	tx.c.setRecord(appendRunKey(nil, runProgress, tx.user, run.Position), record.AppendRunProgress(nil, &run.RunProgress))
	tx.c.replacePostings(runPosting, tx.user, run.Position, held.indexed, index.Run(run))
	if held.refile {
		tx.c.replacePostings(runDeadLetterPosting, tx.user, posthaste.Position(run.DeadLetterID),
			[]store.Term{index.Callback(held.callback)}, []store.Term{index.Callback(run.CallbackState())})
	}
}

// refiles reports whether a run is in the DLQ, and stays there, and its failure
// callback has another state than before.
func (tx *runTx) refiles(held *heldRun) (bool, error) {
	run, letter := held.run, posthaste.Position(held.run.DeadLetterID)
	if letter == 0 || tx.ended[letter] || held.callback == run.CallbackState() {
		return false, nil
	}
	return tx.inDLQ(letter)
}

// inDLQ reports whether the DLQ of runs has an entry.
func (tx *runTx) inDLQ(letter posthaste.Position) (bool, error) {
	err := get(tx.c.records(), appendRunKey(nil, runDeadLetter, tx.user, letter), func([]byte) error { return nil })
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Log implements store.RunRecords.
func (tx *runTx) Log(m *posthaste.Message, state posthaste.State, reason string) {
	tx.stage(func() {
		tx.c.event(m, tx.now, posthaste.Event{MessageID: m.ID, State: state, Error: reason})
	})
}

// Append implements store.RunDeliveries.
func (tx *runTx) Append(run *posthaste.Run, entry posthaste.RunEntry, m *posthaste.Message) error {
	entry.Index = run.Entries
	run.Entries++
	run.ListBytes += len(entry.Body)
	tx.Save(run)
	tx.stage(func() {
		tx.c.setRecord(appendEntryKey(nil, tx.user, run.Position, entry.Index), record.AppendRunEntry(nil, &entry))
	})
	if m == nil {
		return nil
	}
	m.Run.Entry, m.Run.ListBytes, m.Body = entry.Index, run.ListBytes, entry.Body
	return tx.Accept(m)
}

// appendMemoryKey makes the key of what a run remembers under a text. The text is
// hashed: it may be of any length.
func appendMemoryKey(key []byte, user string, run posthaste.Position, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return append(appendRunKey(key, runMemory, user, run), sum[:16]...)
}

// PutIdempotencyRecord implements store.RunDeliveries.
func (tx *runTx) PutIdempotencyRecord(run *posthaste.Run, key string, id posthaste.MessageID) {
	tx.memory[memoryKey{run.Position, key}] = id
	tx.stage(func() { tx.c.setRecord(appendMemoryKey(nil, tx.user, run.Position, key), id[:]) })
}

// IdempotencyRecord implements store.RunDeliveries.
func (tx *runTx) IdempotencyRecord(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error) {
	if id, ok = tx.memory[memoryKey{run.Position, key}]; ok {
		return id, true, nil
	}
	err = get(tx.c.records(), appendMemoryKey(nil, tx.user, run.Position, key), func(data []byte) error {
		if len(data) != len(id) {
			return errCorrupt
		}
		copy(id[:], data)
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return id, false, nil
	}
	return id, err == nil, err
}

// Entries implements store.RunDeliveries.
func (tx *runTx) Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	return readEntries(tx.c.records(), tx.user, run, count)
}

// Accept implements store.RunDeliveries.
func (tx *runTx) Accept(m *posthaste.Message) error {
	arrived, err := tx.store.newMessages(tx.c, []*posthaste.Message{m})
	if err != nil {
		return err
	}
	tx.stage(func() { tx.store.accept(tx.c, tx.now, &arrived) })
	return nil
}

// Message implements store.RunDeliveries.
func (tx *runTx) Message(id posthaste.MessageID) (*posthaste.Message, posthaste.State, error) {
	st, err := tx.c.status(tx.user, id)
	if err != nil {
		return nil, "", err
	}
	if !st.state.Terminal() && (id == tx.settling || tx.store.scheduler.attempted(id)) {
		st.state = posthaste.StateActive
	}
	m, err := tx.c.message(tx.user, id)
	return m, st.state, err
}

// CancelDeliveries implements store.RunDeliveries.
func (tx *runTx) CancelDeliveries(run *posthaste.Run, inFlight bool) error {
	entries, err := tx.Entries(run.Position, -1)
	if err != nil {
		return err
	}
	ids := []posthaste.MessageID{run.FirstID}
	for _, entry := range entries {
		ids = append(ids, entry.MessageID)
	}
	ids = slices.DeleteFunc(ids, func(id posthaste.MessageID) bool { return id == tx.settling })
	_, err = tx.cancel(ids, inFlight)
	return err
}

// Cancel implements store.RunDeliveries.
func (tx *runTx) Cancel(id posthaste.MessageID) (bool, error) {
	n, err := tx.cancel([]posthaste.MessageID{id}, true)
	return n > 0, err
}

func (tx *runTx) cancel(ids []posthaste.MessageID, inFlight bool) (int, error) {
	targets, err := tx.store.cancellable(tx.c, tx.user, ids)
	if err != nil {
		return 0, err
	}
	tx.stage(func() {
		for _, t := range targets {
			tx.cancelTarget(t, inFlight)
		}
	})
	return len(targets), nil
}

// cancelTarget cancels a message as what this operation wrote before has left it.
func (tx *runTx) cancelTarget(t target, inFlight bool) {
	st, err := tx.c.status(tx.user, t.message.ID)
	if err != nil || st.state.Terminal() || st.cancelRequested {
		return // it cannot be an error: the status has been read before
	}
	t.status = st
	tx.store.cancel(tx.c, tx.now, t, inFlight)
}

// CachedResponse implements store.RunResponses.
func (tx *runTx) CachedResponse(key string) ([]byte, error) {
	for _, at := range []time.Time{tx.now, tx.now.Add(-store.ResponseWindow)} {
		var kept []byte
		err := get(tx.c.records(), appendAnswerKey(nil, tx.user, at, key), func(data []byte) error {
			given, answer, err := parseAnswer(data)
			if err == nil && tx.now.Sub(given) < store.ResponseWindow {
				kept = append([]byte{}, answer...)
			}
			return err
		})
		if kept != nil || err != nil && !errors.Is(err, store.ErrNotFound) {
			return kept, err
		}
	}
	return nil, nil
}

// CacheResponse implements store.RunResponses.
func (tx *runTx) CacheResponse(key string, answer []byte) {
	tx.stage(func() {
		value := binary.BigEndian.AppendUint64(nil, uint64(tx.now.UnixMilli()))
		tx.c.setRecord(appendAnswerKey(nil, tx.user, tx.now, key), append(value, answer...))
	})
}

// parseAnswer reads what CacheResponse writes: when an answer was given, and the answer.
func parseAnswer(data []byte) (given time.Time, answer []byte, err error) {
	if len(data) < 8 {
		return time.Time{}, nil, errCorrupt
	}
	return milliTime(int64(binary.BigEndian.Uint64(data))), data[8:], nil
}

// appendAnswerKey makes the key of an answer. It lies in the day it was given, so
// that it is forgotten with it.
func appendAnswerKey(dst []byte, user string, at time.Time, key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return append(appendSegment(dst, dayOf(at), segmentAnswer, user), sum[:16]...)
}

// Advance implements store.RunResponses.
func (tx *runTx) Advance(step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	if step == nil {
		return nil
	}
	if _, err := stepped(tx.c, tx.user, step); err != nil {
		return err
	}
	tx.stage(func() { _ = advance(tx.c, tx.user, step, processed, failures) }) // what it reads was just loaded
	return nil
}
