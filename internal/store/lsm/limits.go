package lsm

import (
	"errors"
	"fmt"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// flowKeyRecord is a flow-control key as it is stored or about to be.
type flowKeyRecord struct {
	key     *posthaste.FlowKey // nil if it cannot be read
	stored  []byte
	window  flow.Window
	current []byte // with that window; nil if it was not asked for
}

func newFlowKeyRecord(name string, stored []byte) *flowKeyRecord {
	key, err := record.DecodeFlowKey(name, stored)
	if err != nil {
		return &flowKeyRecord{stored: stored}
	}
	return &flowKeyRecord{key: key, stored: stored, window: windowOf(key), current: stored}
}

// with returns the key with another window, and the window.
func (r *flowKeyRecord) with(window flow.Window) ([]byte, flow.Window) {
	if r.key == nil {
		return r.stored, flow.Window{} // reading the key reports the damage
	}
	if !sameWindow(window, r.window) {
		key := *r.key
		key.WindowStartedAt, key.WindowCount = window.StartedAt, window.Count
		r.window, r.current = window, record.AppendFlowKey(nil, &key)
	}
	return r.current, r.window
}

// asOfNow returns a key with its window as of now, and the window.
func (s *Store) asOfNow(user, name string, r *flowKeyRecord) ([]byte, flow.Window) {
	window, _, known := s.scheduler.use(user, name)
	if !known && r.key != nil {
		window = windowOf(r.key)
	}
	return r.with(window)
}

func windowOf(key *posthaste.FlowKey) flow.Window {
	return flow.Window{StartedAt: key.WindowStartedAt, Count: key.WindowCount}
}

// sameWindow reports whether two windows are stored as the same.
func sameWindow(a, b flow.Window) bool {
	return a.Count == b.Count && sameMilli(a.StartedAt, b.StartedAt)
}

// flowKey returns a flow-control key as of this commit, or store.ErrNotFound.
func (c *commit) flowKey(user, name string) (*flowKeyRecord, error) {
	id := flowID{user, name}
	if r := c.flowKeys[id]; r != nil {
		return r, nil
	}
	stored, err := getRecord(c.records(), store.ItemFlowKey, user, []byte(name))
	if err != nil {
		return nil, err
	}
	r := newFlowKeyRecord(name, stored)
	c.flowKeys[id] = r
	return r, nil
}

// countAttempt writes down the window in which a claimed attempt was counted.
func (s *Store) countAttempt(c *commit, held *lease) error {
	if held.limiter == nil {
		return nil
	}
	id := held.limiter.id
	r, err := c.flowKey(id.user, id.key)
	if errors.Is(err, store.ErrNotFound) || err == nil && (r.key == nil || r.key.Rate == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	window, _, known := s.scheduler.use(id.user, id.key)
	if !known || sameWindow(window, windowOf(r.key)) {
		return nil
	}
	value, _ := r.with(window)
	t := tableOf(store.ItemFlowKey)
	c.setRecord(t.appendRecord(nil, id.user, []byte(id.key)), value)
	c.flowKeys[id] = newFlowKeyRecord(id.key, value)
	return nil
}

// readQueue implements lanesOnDisk.
func (s *Store) readQueue(user, name string) (*posthaste.Queue, error) {
	q, err := readSetting(s, store.ItemQueue, user, name, record.DecodeQueue)
	if errors.Is(err, store.ErrNotFound) {
		return noQueue(name), nil
	}
	return q, err
}

// readFlowKey implements lanesOnDisk.
func (s *Store) readFlowKey(user, name string) (*posthaste.FlowKey, error) {
	key, err := readSetting(s, store.ItemFlowKey, user, name, record.DecodeFlowKey)
	if errors.Is(err, store.ErrNotFound) {
		return &posthaste.FlowKey{Key: name}, nil
	}
	return key, err
}

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

// noQueue is what a lane obeys whose queue is not stored.
func noQueue(name string) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism}
}
