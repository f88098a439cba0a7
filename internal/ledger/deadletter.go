package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// positionKey is the key of what has a position.
func positionKey(at posthaste.Position) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at))
}

func letterKey(id posthaste.DeadLetterID) store.RecordKey {
	return store.RecordKey{Kind: store.ItemDeadLetter, Key: positionKey(posthaste.Position(id))}
}

// addToDLQ adds a dead letter.
func (tx *tx) addToDLQ(d *posthaste.DeadLetter) {
	key, data := letterKey(d.ID), record.AppendDeadLetter(nil, d)
	tx.Put(key.Kind, key.Key, data, store.Found{}, foundLetter(d))
	tx.Count(key, 1, len(data))
}

func foundLetter(d *posthaste.DeadLetter) store.Found {
	return store.Found{Terms: index.DeadLetter(d)}
}

// storedLetter is a dead letter and the size of its record.
type storedLetter struct {
	*posthaste.DeadLetter
	bytes int
}

func (tx *tx) removeFromDLQ(d storedLetter) {
	key := letterKey(d.ID)
	tx.Delete(key.Kind, key.Key, foundLetter(d.DeadLetter))
	tx.Count(key, -1, -d.bytes)
}

func readLetter(r store.Reader, user string, id posthaste.DeadLetterID) (storedLetter, error) {
	key := letterKey(id)
	data, err := r.Get(key.Kind, key.Key)
	if err != nil {
		return storedLetter{}, err
	}
	d, err := record.DecodeDeadLetter(id, user, data)
	return storedLetter{d, len(data)}, err
}

// DeadLetter implements store.Store.
func (l *Ledger) DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (d *posthaste.DeadLetter, err error) {
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		stored, err := readLetter(r, user, id)
		d = stored.DeadLetter
		return err
	})
	return d, err
}

// DeadLetters implements store.Store.
func (l *Ledger) DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (page store.DeadLetterPage, err error) {
	at := make([]posthaste.Position, len(query.Filter.DeadLetterIDs))
	for i, id := range query.Filter.DeadLetterIDs {
		at[i] = posthaste.Position(id)
	}
	find := store.FindQuery{
		Kind: store.ItemDeadLetter, Terms: index.DeadLetters(&query.Filter), At: at,
		Low: query.Low, High: query.High, OldestFirst: query.OldestFirst, Limit: query.Limit,
	}
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) (err error) {
		page = store.DeadLetterPage{}
		budget := store.NewPageBudget(0)
		page.Next, page.More, err = r.Find(find, func(at posthaste.Position, value []byte) (full bool, err error) {
			d, err := record.DecodeDeadLetter(posthaste.DeadLetterID(at), user, value)
			if err != nil || !query.Filter.MatchesDeadLetter(d) {
				return false, err
			}
			if len(page.DeadLetters)+len(page.IDs) == query.Limit || !budget.Take(store.DeadLetterSize(d)) {
				return true, nil
			}
			if query.Bare {
				page.IDs = append(page.IDs, d.ID)
			} else {
				page.DeadLetters = append(page.DeadLetters, d)
			}
			return false, nil
		})
		return err
	})
	if err != nil {
		return store.DeadLetterPage{}, fmt.Errorf("read dead letters: %w", err)
	}
	return page, nil
}

// fetchedAtOnce is how many dead letters a change fetches at once.
const fetchedAtOnce = 20

// eachLetter calls do for those of the dead letters that exist, each once, until that is enough for a
// commit. It returns the ids that are left.
func (tx *tx) eachLetter(ids []posthaste.DeadLetterID, do func(storedLetter) error) (left []posthaste.DeadLetterID, err error) {
	batch, seen, done := store.NewBatchLimit(), map[posthaste.DeadLetterID]bool{}, 0
	for i, id := range ids {
		if i%fetchedAtOnce == 0 {
			if err := tx.Fetch(store.Hint{Records: letterKeys(ids[i:min(i+fetchedAtOnce, len(ids))])}); err != nil {
				return nil, err
			}
		}
		if done > 0 && batch.Full() {
			return ids[i:], nil
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		d, err := readLetter(tx, tx.user, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		batch.Take(store.DeadLetterSize(d.DeadLetter))
		if err := do(d); err != nil {
			return nil, err
		}
		done++
	}
	return nil, nil
}

func letterKeys(ids []posthaste.DeadLetterID) []store.RecordKey {
	keys := make([]store.RecordKey, len(ids))
	for i, id := range ids {
		keys[i] = letterKey(id)
	}
	return keys
}

// DeleteDeadLetters implements store.Store.
func (l *Ledger) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID, progress store.Progress) ([]posthaste.DeadLetterID, error) {
	var deleted []posthaste.DeadLetterID
	err := l.update(ctx, time.Time{}, user, store.Hint{}, func(tx *tx) error {
		deleted = deleted[:0]
		left, err := tx.eachLetter(ids, func(d storedLetter) error {
			tx.removeFromDLQ(d)
			deleted = append(deleted, d.ID)
			return nil
		})
		if err != nil {
			return err
		}
		return tx.advance(progress.Step(left), len(deleted), nil)
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

// RetryDeadLetters implements store.Store.
func (l *Ledger) RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), progress store.Progress,
) ([]store.Retried, error) {
	var results []store.Retried
	err := l.update(ctx, now, user, store.Hint{}, func(tx *tx) error {
		if err := tx.CheckSpace(); err != nil {
			return err
		}
		results = results[:0]
		left, err := tx.eachLetter(ids, func(d storedLetter) error {
			result, err := tx.retry(d, remake)
			results = append(results, result)
			return err
		})
		if err != nil {
			return err
		}
		failures := store.FailuresOf(results)
		return tx.advance(progress.Step(left), len(results)-len(failures), failures)
	})
	if err != nil {
		return nil, err
	}
	return slices.Clip(results), nil
}

// retry replaces a dead letter by a new message, unless remake fails.
func (tx *tx) retry(d storedLetter, remake func(*posthaste.DeadLetter) (*posthaste.Message, error)) (store.Retried, error) {
	m, err := remake(d.DeadLetter)
	if err != nil {
		return store.Retried{ID: d.ID, Err: err}, nil
	}
	tx.removeFromDLQ(d)
	return store.Retried{ID: d.ID, Message: m}, tx.accept(m)
}
