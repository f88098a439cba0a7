package ledger

import (
	"context"
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// runsTrimmedAtOnce is how many runs one commit removes.
const runsTrimmedAtOnce = 20

// trimRuns removes runs that ended before a time and are not in the DLQ.
func (l *Ledger) trimRuns(ctx context.Context, user string, before time.Time) (removed int, err error) {
	query := store.RunQuery{
		Filter: posthaste.Filter{
			RunStates: []posthaste.RunState{posthaste.RunSuccess, posthaste.RunFailed, posthaste.RunCancelled},
		},
		High: posthaste.FirstPosition(before) - 1, OldestFirst: true, Limit: runsTrimmedAtOnce,
	}
	for more := true; more; {
		page, err := l.Runs(ctx, user, query)
		if err != nil {
			return removed, err
		}
		step := 0
		err = l.update(ctx, time.Time{}, user, trimHint(page.Runs), func(tx *tx) error {
			step = 0
			for _, run := range page.Runs {
				forgotten, err := tx.forgetRun(run.Position, before)
				if err != nil {
					return err
				}
				if forgotten {
					step++
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed += step
		more, query.Low = page.More, page.Next
	}
	return removed, nil
}

// trimHint names what removing runs reads of each.
func trimHint(runs []*posthaste.Run) (hint store.Hint) {
	for _, run := range runs {
		hint.Records = append(hint.Records, runKey(run.Position), index.LatestRun(run.ID))
		if run.DeadLetterID != 0 {
			hint.Records = append(hint.Records, failedKey(run.DeadLetterID))
		}
	}
	return hint
}

// forgetRun removes a run that has ended, with all that belongs to it, unless it ended too late, is
// in the DLQ or is gone already.
func (tx *tx) forgetRun(at posthaste.Position, before time.Time) (bool, error) {
	run, size, err := readRun(tx, tx.user, at)
	if err != nil {
		return false, ignore(err, store.ErrNotFound)
	}
	if run.Active() || !run.CompletedAt.Before(before) {
		return false, nil
	}
	if _, _, _, err := readFailed(tx, run.DeadLetterID); !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	waiters, err := waitersOf(tx, at)
	if err != nil {
		return false, err
	}
	for _, w := range waiters { // for runs that it invoked and that are active
		tx.removeWaiter(w)
	}
	for _, kind := range []store.ItemKind{store.ItemRunEntry, store.ItemIdempotencyRecord, store.ItemRunEvent} {
		bytes, err := tx.removeAll(kind, positionKey(at))
		if err != nil {
			return false, err
		}
		if kind == store.ItemRunEntry {
			size += bytes
		}
	}
	key := runKey(at)
	tx.Delete(key.Kind, key.Key, foundRun(run))
	tx.Count(key, -1, -size)
	return true, tx.forgetLatest(run)
}

// forgetLatest makes the last of the other runs with the id of a removed one the latest, if the
// removed one was that.
func (tx *tx) forgetLatest(run *posthaste.Run) error {
	if at, err := readLatest(tx, run.ID); err != nil || at != run.Position {
		return ignore(err, store.ErrNotFound)
	}
	left, err := tx.lastWithID(run.ID)
	if err != nil {
		return err
	}
	ref := index.LatestRunRef(run)
	if left == 0 {
		tx.removeRef(ref)
	} else {
		ref.Value = positionKey(left)
		tx.putRef(ref)
	}
	return nil
}

// lastWithID looks for the last run with an id, 0 if there is none.
func (tx *tx) lastWithID(id string) (posthaste.Position, error) {
	query := store.FindQuery{
		Kind: store.ItemRun, Terms: [][]store.Term{{index.RunID(id)}}, High: posthaste.MaxPosition, Limit: runsTrimmedAtOnce,
	}
	for more := true; more; {
		var found []posthaste.Position
		var err error
		query.High, more, err = tx.Find(query, func(at posthaste.Position, _ []byte) (bool, error) {
			found = append(found, at)
			return false, nil
		})
		if err != nil {
			return 0, err
		}
		for _, at := range found {
			run, _, err := readRun(tx, tx.user, at)
			if err == nil && run.ID == id {
				return at, nil
			}
			if err = ignore(err, store.ErrNotFound); err != nil { // removed in this transaction
				return 0, err
			}
		}
	}
	return 0, nil
}
