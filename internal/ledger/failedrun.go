package ledger

import (
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// An entry of the DLQ of runs has the position of the failure and the terms of its run. Another
// record under the id of the run finds it by the beginning of that.

func failedKey(id posthaste.DeadLetterID) store.RecordKey {
	return store.RecordKey{Kind: store.ItemRunDeadLetter, Key: positionKey(posthaste.Position(id))}
}

func foundFailed(run *posthaste.Run) store.Found { return store.Found{Terms: index.FailedRun(run)} }

func (r *runTx) AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter) {
	held, key := r.runs[run.Position], failedKey(d.ID)
	held.failed = foundFailed(run)
	data := record.AppendFailedRun(nil, run.Position, d)
	r.tx.Put(key.Kind, key.Key, data, store.Found{}, held.failed)
	r.tx.putRef(index.FailedRunRef(run, d.ID))
	r.tx.Count(key, 1, len(data))
}

func (r *runTx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	at, letter, _, err := readFailed(r.tx, id)
	if err != nil {
		return nil, nil, err
	}
	d, err := record.DecodeDeadLetter(id, r.tx.user, letter)
	if err != nil {
		return nil, nil, fmt.Errorf("failed run %s: %w", id, err)
	}
	run, err := r.Run(at)
	return d, run, err
}

// readFailed returns an entry of the DLQ of runs and its size: where its run is, and the record of
// the dead letter.
func readFailed(r store.Reader, id posthaste.DeadLetterID) (run posthaste.Position, letter []byte, size int, err error) {
	key := failedKey(id)
	data, err := r.Get(key.Kind, key.Key)
	if err != nil {
		return 0, nil, 0, err
	}
	run, letter, err = record.FailedRun(data)
	return run, letter, len(data), err
}

func (r *runTx) RemoveFromDLQ(run *posthaste.Run) {
	key := failedKey(run.DeadLetterID)
	data, err := r.tx.Get(key.Kind, key.Key)
	if err != nil { // it was removed, or finish fails too
		r.later = append(r.later, func() error { return ignore(err, store.ErrNotFound) })
		return
	}
	r.tx.Delete(key.Kind, key.Key, r.runs[run.Position].failed)
	r.tx.removeRef(index.FailedRunRef(run, run.DeadLetterID))
	r.tx.Count(key, -1, -len(data))
}

// refile makes the entry of a run in the DLQ found by what the run is now. A run keeps the id of an
// entry that was removed.
func (r *runTx) refile(held *heldRun) error {
	if held.failed.Terms == nil {
		return nil
	}
	is := foundFailed(held.run)
	if slices.Equal(held.failed.Terms, is.Terms) {
		return nil
	}
	key := failedKey(held.run.DeadLetterID)
	data, err := r.tx.Get(key.Kind, key.Key)
	if err != nil {
		return ignore(err, store.ErrNotFound)
	}
	r.tx.Put(key.Kind, key.Key, data, held.failed, is)
	held.failed = is
	return nil
}

// failedByID returns the entries of runs whose ids begin with one of the prefixes, ascending. ok is
// false if there are too many to look at one by one.
func failedByID(r store.Reader, prefixes []string) (at []posthaste.Position, ok bool, err error) {
	errMany := errors.New("too many")
	for _, prefix := range prefixes {
		err := scanAll(r, store.ItemFailedRunID, index.FailedRunID(prefix), nil, maxNamed+1, func(key, _ []byte) error {
			if len(at) == maxNamed {
				return errMany
			}
			position, err := positionOf(key[max(0, len(key)-8):])
			at = append(at, position)
			return err
		})
		if errors.Is(err, errMany) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return at, true, nil
}

// maxNamed is how many entries are looked at one by one because of the ids of their runs. More are
// found by the rest of the filter.
const maxNamed = 1000
