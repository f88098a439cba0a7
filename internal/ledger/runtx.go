package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// runTx implements store.RunTx, where its methods are described. It writes records at once, because
// reads see them. Changes of messages and events wait for finish: reads do not see them, and in the
// log they come after the settlement that causes them.
type runTx struct {
	tx       *tx
	settling posthaste.MessageID // the message that is being settled, if any

	runs     map[posthaste.Position]*heldRun
	changed  []*heldRun           // in the order of their first Save
	accepted []*posthaste.Message // by later
	later    []func() error
}

// heldRun is a run that the transaction has read or started.
type heldRun struct {
	run    *posthaste.Run
	listed int         // entries before this transaction
	size   int         // of the record, as stored; 0: it is new
	found  store.Found // what the record is found by, as stored
	failed store.Found // the same of its entry in the DLQ, if it has one
	dirty  bool
}

func newRunTx(tx *tx) *runTx { return &runTx{tx: tx} }

// Transact implements store.Store.
func (l *Ledger) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	return l.update(ctx, now, user, store.Hint{}, func(tx *tx) error {
		r := newRunTx(tx)
		if err := change(r); err != nil {
			return err
		}
		return r.finish()
	})
}

// finish writes what waits and the runs that were saved.
func (r *runTx) finish() error {
	if hint := acceptHint(r.accepted); len(hint.Records) > 0 {
		if err := r.tx.Fetch(hint.Hint); err != nil {
			return err
		}
	}
	for _, do := range r.later {
		if err := do(); err != nil {
			return err
		}
	}
	for _, held := range r.changed {
		if err := r.write(held); err != nil {
			return err
		}
	}
	return nil
}

// write writes a run. A new one that no other run waits for needs space on the disk.
func (r *runTx) write(held *heldRun) error {
	run, started := held.run, 0
	if held.size == 0 {
		started = 1
		if run.Invoker == nil {
			if err := r.tx.CheckSpace(); err != nil {
				return err
			}
		}
	}
	key, data := runKey(run.Position), record.AppendRunItem(nil, run)
	r.tx.Put(key.Kind, key.Key, data, held.found, foundRun(run))
	r.tx.Count(key, started, len(data)-held.size)
	return r.refile(held)
}

func foundRun(run *posthaste.Run) store.Found { return store.Found{Terms: index.Run(run)} }

func (r *runTx) hold(held *heldRun) {
	if r.runs == nil {
		r.runs = map[posthaste.Position]*heldRun{}
	}
	r.runs[held.run.Position] = held
}

func (r *runTx) Now() time.Time { return r.tx.now }

func (r *runTx) NextPosition(slot posthaste.Slot) posthaste.Position { return r.tx.NextPosition(slot) }

func (r *runTx) Run(at posthaste.Position) (*posthaste.Run, error) {
	if held := r.runs[at]; held != nil {
		return held.run, nil
	}
	run, size, err := readRun(r.tx, r.tx.user, at)
	if err != nil {
		return nil, err
	}
	held := &heldRun{run: run, listed: run.Entries, size: size, found: foundRun(run)}
	if run.DeadLetterID != 0 {
		held.failed = foundFailed(run)
	}
	r.hold(held)
	return run, nil
}

func (r *runTx) LatestRun(id string) (*posthaste.Run, error) {
	at, err := readLatest(r.tx, id)
	if err != nil {
		return nil, err
	}
	return r.Run(at)
}

func (r *runTx) Start(run *posthaste.Run) {
	r.hold(&heldRun{run: run})
	r.tx.putRef(index.LatestRunRef(run))
	r.Save(run)
}

func (r *runTx) Save(run *posthaste.Run) {
	if held := r.runs[run.Position]; !held.dirty {
		held.dirty = true
		r.changed = append(r.changed, held)
	}
}

func (r *runTx) Log(m *posthaste.Message, state posthaste.State, reason string) {
	r.later = append(r.later, func() error {
		r.tx.Log(m, posthaste.Event{MessageID: m.ID, State: state, Error: reason})
		return nil
	})
}

func (r *runTx) Append(run *posthaste.Run, entry posthaste.RunEntry, m *posthaste.Message) error {
	entry.Index = run.Entries
	run.Entries++
	run.ListBytes += len(entry.Body)
	r.Save(run)
	data := record.AppendRunEntry(nil, &entry)
	r.tx.Put(store.ItemRunEntry, entryKey(run.Position, entry.Index), data, store.Found{}, store.Found{})
	r.tx.Count(runKey(run.Position), 0, len(data))
	if m == nil {
		return nil
	}
	m.Run.Entry, m.Run.ListBytes, m.Body = entry.Index, run.ListBytes, entry.Body
	return r.Accept(m)
}

func (r *runTx) PutIdempotencyRecord(run *posthaste.Run, key string, id posthaste.MessageID) {
	r.tx.Put(store.ItemIdempotencyRecord, idempotencyKey(run.Position, key), id[:], store.Found{}, store.Found{})
}

func (r *runTx) IdempotencyRecord(run *posthaste.Run, key string) (id posthaste.MessageID, ok bool, err error) {
	data, err := r.tx.Get(store.ItemIdempotencyRecord, idempotencyKey(run.Position, key))
	if errors.Is(err, store.ErrNotFound) {
		return id, false, nil
	}
	if err == nil && len(data) != len(id) {
		err = errDamaged
	}
	if err != nil {
		return id, false, err
	}
	return posthaste.MessageID(data), true, nil
}

func (r *runTx) Entries(run posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	if held := r.runs[run]; held != nil && (count < 0 || count > held.listed) {
		count = held.listed
	}
	return readEntries(r.tx, run, 0, count)
}

func (r *runTx) Accept(m *posthaste.Message) error {
	r.accepted = append(r.accepted, m)
	r.later = append(r.later, func() error { return r.tx.accept(m) })
	return nil
}

func (r *runTx) Message(id posthaste.MessageID) (*posthaste.Message, posthaste.State, error) {
	ids := []posthaste.MessageID{id}
	if err := r.tx.Fetch(store.Hint{Places: ids, Messages: ids}); err != nil {
		return nil, "", err
	}
	place, err := r.tx.Place(id)
	if err != nil {
		return nil, "", err
	}
	m, err := r.tx.Message(id)
	if place.Lease != 0 {
		return m, posthaste.StateActive, err
	}
	return m, place.State, err
}

func (r *runTx) CancelDeliveries(run *posthaste.Run, inFlight bool) error {
	entries, err := r.Entries(run.Position, -1)
	if err != nil {
		return err
	}
	ids := []posthaste.MessageID{run.FirstID}
	for _, entry := range entries {
		ids = append(ids, entry.MessageID)
	}
	return r.cancel(slices.DeleteFunc(ids, func(id posthaste.MessageID) bool { return id == r.settling }), inFlight)
}

// cancel cancels those of some messages that have not ended.
func (r *runTx) cancel(ids []posthaste.MessageID, inFlight bool) error {
	if err := r.tx.Fetch(store.Hint{Places: ids}); err != nil {
		return err
	}
	living, err := r.tx.cancellable(ids)
	if err != nil {
		return err
	}
	for _, id := range living {
		m, err := r.tx.readable(id)
		if err != nil {
			return err
		}
		if m != nil {
			r.later = append(r.later, func() error {
				_, err := r.tx.cancel(m, inFlight)
				return err
			})
		}
	}
	return nil
}

func (r *runTx) Cancel(id posthaste.MessageID) (bool, error) {
	before := len(r.later)
	err := r.cancel([]posthaste.MessageID{id}, true)
	return len(r.later) > before, err
}

func (r *runTx) CachedResponse(key string) ([]byte, error) {
	cached, err := responses.get(r.tx, key)
	return slices.Clone(cached), err
}

func (r *runTx) CacheResponse(key string, response []byte) {
	responses.put(r.tx, key, response)
}

func (r *runTx) Advance(step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	return r.tx.advance(step, processed, failures)
}
