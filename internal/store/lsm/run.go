package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// A run is two records, because its progress changes with every step and the rest
// does not. Its list lies beside it, in order, so that a delivery reads it in one
// sweep.

func appendRunPart(key []byte, part byte, user string) []byte {
	return appendUser(append(key, kindRun, part), user)
}

// appendRunKey makes the key of a part of a run, or the prefix of a part that has
// many keys.
func appendRunKey(key []byte, part byte, user string, at posthaste.Position) []byte {
	return binary.BigEndian.AppendUint64(appendRunPart(key, part, user), uint64(at))
}

func appendEntryKey(key []byte, user string, at posthaste.Position, index int) []byte {
	return binary.BigEndian.AppendUint32(appendRunKey(key, runEntry, user, at), uint32(index))
}

// Transact implements store.Runs.
func (s *Store) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	if len(user) > maxUserLen {
		return fmt.Errorf("user id of %d bytes: at most %d fit", len(user), maxUserLen)
	}
	return s.writer.do(ctx, func(c *commit) error {
		tx := s.newRunTx(c, now, user)
		if err := change(tx); err != nil {
			return err
		}
		if err := tx.seal(); err != nil {
			return err
		}
		tx.write()
		return nil
	})
}

// Run implements store.Runs.
func (s *Store) Run(_ context.Context, user string, at posthaste.Position) (*posthaste.Run, error) {
	return read(s, func() (*posthaste.Run, error) { return readRun(s.db, user, at) })
}

// LatestRun implements store.Runs.
func (s *Store) LatestRun(_ context.Context, user, id string) (*posthaste.Run, error) {
	return read(s, func() (*posthaste.Run, error) {
		at, err := readLatest(s.db, user, id)
		if err != nil {
			return nil, err
		}
		return readRun(s.db, user, at)
	})
}

// RunEntries implements store.Runs.
func (s *Store) RunEntries(_ context.Context, user string, at posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	return read(s, func() ([]posthaste.RunEntry, error) { return readEntries(s.db, user, at, count) })
}

// readRun returns store.ErrNotFound for an unknown run.
func readRun(r pebble.Reader, user string, at posthaste.Position) (*posthaste.Run, error) {
	var run *posthaste.Run
	err := get(r, appendRunKey(nil, runEnvelope, user, at), func(data []byte) (err error) {
		run, err = record.DecodeRun(user, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = get(r, appendRunKey(nil, runProgress, user, at), func(data []byte) (err error) {
		run.RunProgress, err = record.DecodeRunProgress(data)
		return err
	})
	return run, err
}

// readLatest returns the place of the latest run with an id.
func readLatest(r pebble.Reader, user, id string) (at posthaste.Position, err error) {
	err = get(r, append(appendRunPart(nil, runLatest, user), id...), func(data []byte) error {
		at, err = parsePosition(data)
		return err
	})
	return at, err
}

// parsePosition reads a position that is all there is.
func parsePosition(data []byte) (posthaste.Position, error) {
	if len(data) != 8 {
		return 0, errCorrupt
	}
	return posthaste.Position(binary.BigEndian.Uint64(data)), nil
}

// errEnough ends a scan that has seen what it wanted.
var errEnough = errors.New("enough")

func readEntries(r pebble.Reader, user string, at posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	prefix := appendRunKey(nil, runEntry, user, at)
	var entries []posthaste.RunEntry
	err := scan(r, prefix, func(key, value []byte) error {
		if len(entries) == count {
			return errEnough
		}
		index := key[len(prefix):]
		if len(index) != 4 {
			return errCorrupt
		}
		entry, err := record.DecodeRunEntry(int(binary.BigEndian.Uint32(index)), value)
		entries = append(entries, entry)
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("list of run %s: %w", posthaste.DeadLetterID(at), err)
	}
	return entries, nil
}

// readEntryBody returns the body of one entry, and nothing if the list was removed
// with its run.
func readEntryBody(r pebble.Reader, user string, at posthaste.Position, index int) (body []byte, err error) {
	err = get(r, appendEntryKey(nil, user, at, index), func(data []byte) error {
		entry, err := record.DecodeRunEntry(index, data)
		body = entry.Body
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return body, err
}
