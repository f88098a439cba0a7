package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Schedule returns what a schedule is found by: it is due at its next tick.
func Schedule(s *posthaste.Schedule) (f store.Found) {
	if !s.Paused {
		f.DueAt = s.NextAt
	}
	return f
}

// Action returns what a bulk action is found by: an unfinished one is always due, another one since
// it was completed.
func Action(a *posthaste.BulkAction) store.Found {
	if a.Finished() {
		return store.Found{DueAt: a.CompletedAt}
	}
	return store.Found{DueAt: time.UnixMilli(0)}
}

// Of returns how a record is found, or why it cannot be read. It reads the run of an entry of the
// DLQ of runs.
func Of(r store.Reader, item *store.Item) (f Filed, err error) {
	name := string(item.Key)
	switch item.Kind {
	case store.ItemSecret:
		return f, store.CheckCopied(name, string(item.Value))
	case store.ItemQueue:
		_, err = record.DecodeQueue(name, item.Value)
	case store.ItemURLGroup:
		_, err = record.DecodeURLGroup(name, item.Value)
	case store.ItemFlowKey:
		_, err = record.DecodeFlowKey(name, item.Value)
	case store.ItemSchedule:
		s, err := record.DecodeSchedule(item.User, name, item.Value)
		if err != nil {
			return f, err
		}
		f.Found = Schedule(s)
	case store.ItemAction:
		a, err := record.DecodeAction(item.User, name, item.Value)
		if err != nil {
			return f, err
		}
		f.Found = Action(a)
	case store.ItemDeadLetter:
		at, err := position(item.Key)
		if err != nil {
			return f, err
		}
		d, err := record.DecodeDeadLetter(posthaste.DeadLetterID(at), item.User, item.Value)
		if err != nil {
			return f, err
		}
		f.At, f.Terms = at, DeadLetter(d)
	case store.ItemSubmission, store.ItemResponse:
		if len(item.Key) != 4+16 || len(item.Value) < 8 {
			return f, errKey
		}
	case store.ItemLatestRun, store.ItemTopic, store.ItemFailedRunID:
	default:
		return OfRun(item, func(at posthaste.Position) (*posthaste.Run, error) { return readRun(r, item.User, at) })
	}
	return f, err
}

// Check returns an error if a record does not agree with the records that it belongs to.
func Check(r store.Reader, item *store.Item, f Filed) error {
	if f.Run != 0 && item.Kind != store.ItemRun {
		if err := exists(r, RunKey(f.Run)); err != nil {
			return fmt.Errorf("its run: %w", err)
		}
	}
	if f.Ref != nil {
		if err := exists(r, f.Ref.RecordKey); err != nil {
			return fmt.Errorf("it is not found among the %s: %w", f.Ref.Kind, err)
		}
	}
	switch item.Kind {
	case store.ItemRun:
		return checkList(r, item)
	case store.ItemLatestRun:
		return checkLatest(r, item)
	case store.ItemTopic, store.ItemFailedRunID:
		return checkRef(r, item)
	}
	return nil
}

func exists(r store.Reader, of store.RecordKey) error {
	_, err := r.Get(of.Kind, of.Key)
	return err
}

// RunKey is the key of a run.
func RunKey(at posthaste.Position) store.RecordKey {
	return store.RecordKey{Kind: store.ItemRun, Key: key(at)}
}

func readRun(r store.Reader, user string, at posthaste.Position) (*posthaste.Run, error) {
	data, err := r.Get(store.ItemRun, key(at))
	if err != nil {
		return nil, err
	}
	return record.DecodeRunItem(user, data)
}

// checkList: a run has a list as long as it says.
func checkList(r store.Reader, item *store.Item) error {
	run, err := record.DecodeRunItem(item.User, item.Value)
	if err != nil {
		return err
	}
	n, after, more := 0, []byte(nil), true
	for more {
		const atOnce = 1000
		more, err = r.Scan(store.ItemRunEntry, item.Key, after, atOnce, func(key, _ []byte) error {
			if len(key) != 12 || int(binary.BigEndian.Uint32(key[8:])) != n {
				return fmt.Errorf("run %s: entry %d of its list is not there", run.ID, n)
			}
			n, after = n+1, bytes.Clone(key)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if n != run.Entries {
		return fmt.Errorf("run %s: its list has %d entries, and should have %d", run.ID, n, run.Entries)
	}
	return nil
}

func checkLatest(r store.Reader, item *store.Item) error {
	at, err := position(item.Value)
	if err != nil {
		return err
	}
	run, err := readRun(r, item.User, at)
	if err != nil {
		return fmt.Errorf("the latest run with an id: %w", err)
	}
	if !bytes.Equal(item.Key, hash(run.ID)) {
		return fmt.Errorf("run %s is the latest one with another id", run.ID)
	}
	return nil
}

// checkRef: what a waiter or an entry of the DLQ is found by leads to one.
func checkRef(r store.Reader, item *store.Item) error {
	if len(item.Key) < 8 {
		return errKey
	}
	of := store.RecordKey{Kind: store.ItemRunDeadLetter, Key: item.Key[len(item.Key)-8:]}
	if item.Kind == store.ItemTopic {
		of = store.RecordKey{Kind: store.ItemWaiter, Key: append(bytes.Clone(item.Value), of.Key...)}
	}
	if err := exists(r, of); err != nil {
		return fmt.Errorf("what it says is not among the %s: %w", of.Kind, err)
	}
	return nil
}

func position(data []byte) (posthaste.Position, error) {
	if len(data) != 8 {
		return 0, errors.New("index: a position has another length")
	}
	return posthaste.Position(binary.BigEndian.Uint64(data)), nil
}
