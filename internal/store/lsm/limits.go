package lsm

import (
	"bytes"
	"errors"
	"fmt"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// asOfNow returns a flow-control key as it is stored, but with its window as of now, and the window.
// A key that cannot be read is returned as it is: its reader reports the damage.
func (s *Store) asOfNow(user, name string, stored []byte) ([]byte, flow.Window) {
	key, err := record.DecodeFlowKey(name, stored)
	if err != nil {
		return stored, flow.Window{}
	}
	before := flow.WindowOf(key)
	now, _, known := s.scheduler.KeyUse(user, name)
	if !known || sameWindow(now, before) {
		return stored, before
	}
	key.WindowStartedAt, key.WindowCount = now.StartedAt, now.Count
	return record.AppendFlowKey(nil, key), now
}

// sameWindow reports whether two windows are stored as the same.
func sameWindow(a, b flow.Window) bool {
	return a.Count == b.Count && sameMilli(a.StartedAt, b.StartedAt)
}

// saveWindow writes down the window of a flow-control key in which attempts were counted.
func (s *Store) saveWindow(c *commit, user, name string) error {
	stored, err := getRecord(c.records(), store.ItemFlowKey, user, []byte(name))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if current, _ := s.asOfNow(user, name, stored); !bytes.Equal(current, stored) {
		c.setRecord(tableOf(store.ItemFlowKey).appendRecord(nil, user, []byte(name)), current)
	}
	return nil
}

// ReadQueue implements lanes.Disk.
func (s *Store) ReadQueue(user, name string) (*posthaste.Queue, error) {
	q, err := readSetting(s, store.ItemQueue, user, name, record.DecodeQueue)
	if errors.Is(err, store.ErrNotFound) {
		return noQueue(name), nil
	}
	return q, err
}

// ReadFlowKey implements lanes.Disk.
func (s *Store) ReadFlowKey(user, name string) (*posthaste.FlowKey, error) {
	key, err := readSetting(s, store.ItemFlowKey, user, name, record.DecodeFlowKey)
	if errors.Is(err, store.ErrNotFound) {
		return &posthaste.FlowKey{Key: name}, nil
	}
	return key, err
}

// KeyHome implements lanes.Disk.
func (s *Store) KeyHome(partition, key string) string { return s.partitions.KeyHome(partition, key) }

// readSetting reads what limits messages. One that cannot be read is set aside.
func readSetting[T any](s *Store, kind store.ItemKind, user, name string, decode func(string, []byte) (*T, error)) (*T, error) {
	data, err := getRecord(s.db, kind, user, []byte(name))
	if errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	var setting *T
	if err == nil {
		setting, err = decode(name, data)
	}
	if err != nil {
		t := tableOf(kind)
		s.unreadable.add(t.appendRecord(nil, user, []byte(name)), err)
		return nil, fmt.Errorf("%s: %q of user %q: %w", kind, name, user, err)
	}
	return setting, nil
}

// noQueue limits a lane whose queue is not stored.
func noQueue(name string) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism}
}
