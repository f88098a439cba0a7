package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// A run is a record under its position, which begins the keys of what belongs to it: the entries of
// its list, its idempotency records, its waiters and the events that wait for one.

func runKey(at posthaste.Position) store.RecordKey {
	return store.RecordKey{Kind: store.ItemRun, Key: positionKey(at)}
}

func entryKey(run posthaste.Position, index int) []byte {
	return binary.BigEndian.AppendUint32(positionKey(run), uint32(index))
}

func idempotencyKey(run posthaste.Position, key string) []byte {
	return append(positionKey(run), index.IdempotencyRecord(key)...)
}

// positionOf is the inverse of positionKey.
func positionOf(data []byte) (posthaste.Position, error) {
	if len(data) != 8 {
		return 0, errDamaged
	}
	return posthaste.Position(binary.BigEndian.Uint64(data)), nil
}

// readRun returns a run and the size of its record, or store.ErrNotFound.
func readRun(r store.Reader, user string, at posthaste.Position) (*posthaste.Run, int, error) {
	key := runKey(at)
	data, err := r.Get(key.Kind, key.Key)
	if err != nil {
		return nil, 0, err
	}
	run, err := record.DecodeRunItem(user, data)
	if err != nil {
		return nil, 0, fmt.Errorf("run %d of user %q: %w", at, user, err)
	}
	return run, len(data), nil
}

// readLatest returns the position of the latest run with an id, or store.ErrNotFound.
func readLatest(r store.Reader, id string) (posthaste.Position, error) {
	key := index.LatestRun(id)
	data, err := r.Get(key.Kind, key.Key)
	if err != nil {
		return 0, err
	}
	return positionOf(data)
}

// readEntries returns count entries of a run's list from an index on, all of them if count is negative.
func readEntries(r store.Reader, run posthaste.Position, from, count int) (entries []posthaste.RunEntry, err error) {
	prefix := positionKey(run)
	var after []byte
	if from > 0 {
		after = entryKey(run, from-1)
	}
	err = scanAll(r, store.ItemRunEntry, prefix, after, count, func(key, value []byte) error {
		number := key[len(prefix):]
		if len(number) != 4 {
			return errDamaged
		}
		entry, err := record.DecodeRunEntry(int(binary.BigEndian.Uint32(number)), value)
		entries = append(entries, entry)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list of the run at %d: %w", run, err)
	}
	return entries, nil
}

// scannedAtOnce is how many records a scan asks for if it wants all.
const scannedAtOnce = 1000

// scanAll visits the records of a kind with a prefix, after a key unless that is nil, up to limit, all if
// limit is negative.
func scanAll(r store.Reader, kind store.ItemKind, prefix, after []byte, limit int, visit func(key, value []byte) error) error {
	var last []byte
	for more := limit != 0; more; {
		atOnce := scannedAtOnce
		if limit > 0 {
			atOnce = min(atOnce, limit)
		}
		visited := 0
		var err error
		more, err = r.Scan(kind, prefix, after, atOnce, func(key, value []byte) error {
			visited++
			last = append(last[:0], key...)
			return visit(key, value)
		})
		if errors.Is(err, store.ErrStop) {
			return nil
		}
		if err != nil {
			return err
		}
		if limit > 0 {
			limit -= visited
			more = more && limit > 0
		}
		after, last = last, after
	}
	return nil
}

// removeAll deletes the records of a kind with a prefix, by which nothing else is found. It returns
// the size of their values.
func (tx *tx) removeAll(kind store.ItemKind, prefix []byte) (size int, err error) {
	var keys [][]byte
	err = scanAll(tx, kind, prefix, nil, -1, func(key, value []byte) error {
		keys, size = append(keys, slices.Clone(key)), size+len(value)
		return nil
	})
	for _, key := range keys {
		tx.Delete(kind, key, store.Found{})
	}
	return size, err
}

// putRef and removeRef write and delete a record that says where another one is.
func (tx *tx) putRef(ref index.Ref) {
	tx.Put(ref.Kind, ref.Key, ref.Value, store.Found{}, store.Found{})
}

func (tx *tx) removeRef(ref index.Ref) { tx.Delete(ref.Kind, ref.Key, store.Found{}) }

// Run implements store.Store.
func (l *Ledger) Run(ctx context.Context, user string, at posthaste.Position) (run *posthaste.Run, err error) {
	scope := store.Scope{User: user, Hint: store.Hint{Records: []store.RecordKey{runKey(at)}}}
	err = l.View(ctx, scope, func(r store.Reader) error {
		run, _, err = readRun(r, user, at)
		return err
	})
	return run, err
}

// LatestRun implements store.Store.
func (l *Ledger) LatestRun(ctx context.Context, user, id string) (run *posthaste.Run, err error) {
	scope := store.Scope{User: user, Hint: store.Hint{Records: []store.RecordKey{index.LatestRun(id)}}}
	err = l.View(ctx, scope, func(r store.Reader) error {
		at, err := readLatest(r, id)
		if err != nil {
			return err
		}
		run, _, err = readRun(r, user, at)
		return err
	})
	return run, err
}

// RunEntries implements store.Store.
func (l *Ledger) RunEntries(ctx context.Context, user string, at posthaste.Position, from, count int) (entries []posthaste.RunEntry, err error) {
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		entries, err = readEntries(r, at, from, count)
		return err
	})
	return entries, err
}
