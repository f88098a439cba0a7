package lsm

import (
	"errors"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

var queues = documents[posthaste.Queue]{
	kind:   kindQueue,
	thing:  "queue",
	encode: record.AppendQueue,
	decode: func(_, name string, data []byte) (*posthaste.Queue, error) { return record.DecodeQueue(name, data) },
}

var flowKeys = documents[posthaste.FlowKey]{
	kind:   kindFlowKey,
	thing:  "flow-control key",
	encode: record.AppendFlowKey,
	decode: func(_, key string, data []byte) (*posthaste.FlowKey, error) { return record.DecodeFlowKey(key, data) },
}

// countAttempt writes down the window in which a claimed attempt was counted.
func (s *Store) countAttempt(c *commit, held *lease) error {
	if held.limiter == nil {
		return nil
	}
	id := held.limiter.id
	stored, err := flowKeys.load(c, id.user, id.key)
	if err != nil {
		return err
	}
	window, _, known := s.scheduler.use(id.user, id.key)
	if stored == nil || !known || stored.Rate == 0 {
		return nil
	}
	key := *stored
	key.WindowStartedAt, key.WindowCount = window.StartedAt, window.Count
	flowKeys.save(c, id.user, id.key, &key)
	return nil
}

// readQueue implements lanesOnDisk.
func (s *Store) readQueue(user, name string) (*posthaste.Queue, error) {
	q, err := queues.get(s.db, user, name)
	if errors.Is(err, store.ErrNotFound) {
		return noQueue(name), nil
	}
	if err != nil {
		s.unreadable.add(queues.key(user, name), err)
	}
	return q, err
}

// readFlowKey implements lanesOnDisk.
func (s *Store) readFlowKey(user, key string) (*posthaste.FlowKey, error) {
	k, err := flowKeys.get(s.db, user, key)
	if errors.Is(err, store.ErrNotFound) {
		return &posthaste.FlowKey{Key: key}, nil
	}
	if err != nil {
		s.unreadable.add(flowKeys.key(user, key), err)
	}
	return k, err
}

// noQueue is what a lane obeys whose queue is not stored.
func noQueue(name string) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism}
}
