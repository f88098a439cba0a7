package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

func appendWaiterKey(key []byte, user string, run, at posthaste.Position) []byte {
	return binary.BigEndian.AppendUint64(appendRunKey(key, runWaiter, user, run), uint64(at))
}

func appendTopicPrefix(key []byte, user string, topic posthaste.Topic) []byte {
	return appendText(appendRunPart(key, runTopic, user), string(topic))
}

func appendTopicKey(key []byte, user string, topic posthaste.Topic, at posthaste.Position) []byte {
	return binary.BigEndian.AppendUint64(appendTopicPrefix(key, user, topic), uint64(at))
}

func appendDeadlineKey(key []byte, user string, w *posthaste.Waiter) []byte {
	key = binary.BigEndian.AppendUint64(append(key, kindRun, runDeadline), uint64(w.Deadline.UnixMilli()))
	key = binary.BigEndian.AppendUint64(appendUser(key, user), uint64(w.Run.Position))
	return binary.BigEndian.AppendUint64(key, uint64(w.Position))
}

// parseDeadlineKey splits a deadline key.
func parseDeadlineKey(key []byte) (deadline time.Time, due store.DueWaiter, err error) {
	const dueAt, userAt, positions = 2, 10, 16
	if len(key) < userAt+1 || len(key) != userAt+1+int(key[userAt])+positions {
		return time.Time{}, store.DueWaiter{}, fmt.Errorf("deadline key %x: %w", key, errCorrupt)
	}
	tail := key[len(key)-positions:]
	return milliTime(int64(binary.BigEndian.Uint64(key[dueAt:]))), store.DueWaiter{
		User:     string(key[userAt+1 : len(key)-positions]),
		Run:      posthaste.Position(binary.BigEndian.Uint64(tail)),
		Position: posthaste.Position(binary.BigEndian.Uint64(tail[8:])),
	}, nil
}

// EventWaiters implements store.Waiters.
func (s *Store) EventWaiters(_ context.Context, user, eventID string) ([]*posthaste.Waiter, error) {
	return read(s, func() ([]*posthaste.Waiter, error) {
		snapshot := s.db.NewSnapshot()
		waiters, err := readTopic(snapshot, user, posthaste.EventTopic(eventID))
		return waiters, errors.Join(err, snapshot.Close())
	})
}

// RunWaiters implements store.Waiters.
func (s *Store) RunWaiters(_ context.Context, user string, run posthaste.Position) ([]*posthaste.Waiter, error) {
	return read(s, func() ([]*posthaste.Waiter, error) { return readRunWaiters(s.db, user, run) })
}

// DueWaiters implements store.Waiters.
func (s *Store) DueWaiters(_ context.Context, now time.Time, limit int, except ...string) (due []store.DueWaiter, next time.Time, err error) {
	done, err := s.hold()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	err = scan(s.db, []byte{kindRun, runDeadline}, func(key, _ []byte) error {
		deadline, waiter, err := parseDeadlineKey(key)
		if err != nil {
			s.unreadable.add(key, err)
			return nil
		}
		if slices.Contains(except, waiter.User) {
			return nil
		}
		if deadline.After(now) || len(due) == limit {
			next = deadline
			return errEnough
		}
		due = append(due, waiter)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return due, next, err
}

func readWaiter(r pebble.Reader, user string, run, at posthaste.Position) (w *posthaste.Waiter, err error) {
	err = get(r, appendWaiterKey(nil, user, run, at), func(data []byte) (err error) {
		w, err = record.DecodeWaiter(at, data)
		return err
	})
	return w, err
}

// readTopic returns what waits for a topic, first come first.
func readTopic(r pebble.Reader, user string, topic posthaste.Topic) ([]*posthaste.Waiter, error) {
	prefix := appendTopicPrefix(nil, user, topic)
	var waiters []*posthaste.Waiter
	err := scan(r, prefix, func(key, value []byte) error {
		at, err := parsePosition(key[len(prefix):])
		if err != nil {
			return err
		}
		run, err := parsePosition(value)
		if err != nil {
			return err
		}
		w, err := readWaiter(r, user, run, at)
		if err != nil {
			return fmt.Errorf("waiter for %s: %w", topic, err)
		}
		waiters = append(waiters, w)
		return nil
	})
	return waiters, err
}

func readRunWaiters(r pebble.Reader, user string, run posthaste.Position) ([]*posthaste.Waiter, error) {
	prefix := appendRunKey(nil, runWaiter, user, run)
	var waiters []*posthaste.Waiter
	err := scan(r, prefix, func(key, value []byte) error {
		at, err := parsePosition(key[len(prefix):])
		if err != nil {
			return err
		}
		w, err := record.DecodeWaiter(at, value)
		waiters = append(waiters, w)
		return err
	})
	return waiters, err
}

// Wait implements store.RunWaiting.
func (tx *runTx) Wait(w *posthaste.Waiter) {
	w.Position = tx.NextPosition()
	tx.stage(func() { tx.c.setWaiter(tx.user, w) })
}

// setWaiter writes every key of a waiter.
func (c *commit) setWaiter(user string, w *posthaste.Waiter) {
	c.setRecord(appendWaiterKey(nil, user, w.Run.Position, w.Position), record.AppendWaiter(nil, w))
	c.setRecord(appendTopicKey(nil, user, w.Topic, w.Position), binary.BigEndian.AppendUint64(nil, uint64(w.Run.Position)))
	if !w.Deadline.IsZero() {
		c.setRecord(appendDeadlineKey(nil, user, w), nil)
	}
}

// EndWait implements store.RunWaiting.
func (tx *runTx) EndWait(w *posthaste.Waiter) {
	tx.ended[w.Position] = true
	tx.stage(func() { tx.c.deleteWaiter(tx.user, w) })
}

// deleteWaiter deletes every key of a waiter.
func (c *commit) deleteWaiter(user string, w *posthaste.Waiter) {
	c.deleteRecord(appendWaiterKey(nil, user, w.Run.Position, w.Position))
	c.deleteRecord(appendTopicKey(nil, user, w.Topic, w.Position))
	if !w.Deadline.IsZero() {
		c.deleteRecord(appendDeadlineKey(nil, user, w))
	}
}

// Waiter implements store.RunWaiting.
func (tx *runTx) Waiter(run, at posthaste.Position) (*posthaste.Waiter, error) {
	if tx.ended[at] {
		return nil, store.ErrNotFound
	}
	return readWaiter(tx.c.records(), tx.user, run, at)
}

// Waiters implements store.RunWaiting.
func (tx *runTx) Waiters(topic posthaste.Topic) ([]*posthaste.Waiter, error) {
	waiters, err := readTopic(tx.c.records(), tx.user, topic)
	return tx.waiting(waiters), err
}

// RunWaiters implements store.RunWaiting.
func (tx *runTx) RunWaiters(run posthaste.Position) ([]*posthaste.Waiter, error) {
	waiters, err := readRunWaiters(tx.c.records(), tx.user, run)
	return tx.waiting(waiters), err
}

// waiting leaves out what this transaction has ended.
func (tx *runTx) waiting(all []*posthaste.Waiter) []*posthaste.Waiter {
	var left []*posthaste.Waiter
	for _, w := range all {
		if !tx.ended[w.Position] {
			left = append(left, w)
		}
	}
	return left
}

func (tx *runTx) eventPrefix(run posthaste.Position, eventID string) []byte {
	return appendText(appendRunKey(nil, runEvent, tx.user, run), eventID)
}

// BufferEvent implements store.RunWaiting.
func (tx *runTx) BufferEvent(run posthaste.Position, eventID string, body []byte) {
	key := binary.BigEndian.AppendUint64(tx.eventPrefix(run, eventID), uint64(tx.NextPosition()))
	tx.kept = append(tx.kept, key)
	tx.stage(func() { tx.c.setRecord(key, body) })
}

// TakeEvent implements store.RunWaiting.
func (tx *runTx) TakeEvent(run posthaste.Position, eventID string) (body []byte, ok bool, err error) {
	var first []byte
	err = scan(tx.c.records(), tx.eventPrefix(run, eventID), func(key, value []byte) error {
		if tx.taken[string(key)] {
			return nil
		}
		first, body = append([]byte{}, key...), append([]byte{}, value...)
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) || first == nil {
		return nil, false, err
	}
	tx.taken[string(first)] = true
	tx.stage(func() { tx.c.deleteRecord(first) })
	return body, true, nil
}

// MoveEvents implements store.RunWaiting.
func (tx *runTx) MoveEvents(from, to posthaste.Position) error {
	prefix, moved := appendRunKey(nil, runEvent, tx.user, from), appendRunKey(nil, runEvent, tx.user, to)
	return scan(tx.c.records(), prefix, func(key, value []byte) error {
		old, body := bytes.Clone(key), bytes.Clone(value)
		tx.stage(func() {
			tx.c.deleteRecord(old)
			tx.c.setRecord(append(bytes.Clone(moved), old[len(prefix):]...), body)
		})
		return nil
	})
}

// DropEvents implements store.RunWaiting.
func (tx *runTx) DropEvents(run posthaste.Position) error {
	prefix := appendRunKey(nil, runEvent, tx.user, run)
	for _, key := range tx.kept {
		if bytes.HasPrefix(key, prefix) {
			tx.stage(func() { tx.c.deleteRecord(key) })
		}
	}
	return scan(tx.c.records(), prefix, func(key, _ []byte) error {
		kept := bytes.Clone(key)
		tx.stage(func() { tx.c.deleteRecord(kept) })
		return nil
	})
}
