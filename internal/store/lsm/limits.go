package lsm

import (
	"context"
	"errors"
	"time"

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

// loadLimits reads the queue and the flow-control key a message names, so that
// followLimits cannot fail.
func (s *Store) loadLimits(c *commit, m *posthaste.Message) error {
	if m.Queue != "" {
		if _, err := queues.load(c, m.User, m.Queue); err != nil {
			return err
		}
	}
	if m.FlowControl.Key != "" {
		if _, err := flowKeys.load(c, m.User, m.FlowControl.Key); err != nil {
			return err
		}
	}
	return nil
}

// followLimits makes the queue a message names, and the key follow its limits.
func (s *Store) followLimits(c *commit, now time.Time, m *posthaste.Message) {
	if m.Queue != "" {
		if q, _ := queues.load(c, m.User, m.Queue); q == nil {
			s.saveQueue(c, m.User, &posthaste.Queue{
				Name: m.Queue, Parallelism: posthaste.DefaultParallelism, CreatedAt: now, UpdatedAt: now,
			})
		}
	}
	if m.FlowControl.Key == "" {
		return
	}
	old, _ := flowKeys.load(c, m.User, m.FlowControl.Key)
	key := posthaste.FlowKey{Key: m.FlowControl.Key, CreatedAt: now}
	if old != nil {
		key = *old
	}
	followed, used := key.Follow(m.FlowControl.FlowLimit), key.Use(now)
	if followed || used {
		s.saveFlowKey(c, m.User, key, false)
	}
}

func (s *Store) saveQueue(c *commit, user string, q *posthaste.Queue) {
	queues.save(c, user, q.Name, q)
	c.after(func() { s.scheduler.changeQueue(user, q) })
}

// saveFlowKey writes a key. Its window counts only if reset says so.
func (s *Store) saveFlowKey(c *commit, user string, key posthaste.FlowKey, reset bool) {
	flowKeys.save(c, user, key.Key, &key)
	c.after(func() { s.scheduler.changeFlowKey(user, key, reset) })
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

// DeleteQueue implements store.Queues. It cancels in steps, so that a long queue
// holds nobody up, and removes the queue with the last.
func (s *Store) DeleteQueue(ctx context.Context, now time.Time, user, name string) error {
	const step = 500
	lane := laneID{user, posthaste.Lane{Kind: posthaste.LaneQueue, Name: name}}
	for from, more := (ticket{}), true; more; {
		ids, next, err := s.ticketsFrom(lane, from, step)
		if err != nil {
			return err
		}
		from, more = next, len(ids) == step
		err = s.writer.do(ctx, func(c *commit) error {
			targets, err := s.cancellableAlone(c, user, ids)
			if err != nil {
				return err
			}
			for _, t := range targets {
				s.cancel(c, now, t, true)
			}
			if !more {
				s.removeQueue(c, user, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeQueue removes a queue. What is left in its lane obeys none any more.
func (s *Store) removeQueue(c *commit, user, name string) {
	queues.remove(c, user, name)
	c.after(func() { s.scheduler.changeQueue(user, noQueue(name)) })
}

// noQueue is what a lane obeys whose queue is not stored.
func noQueue(name string) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism}
}

// ticketsFrom returns the ids of up to limit messages of a lane and where to
// continue.
func (s *Store) ticketsFrom(lane laneID, from ticket, limit int) ([]posthaste.MessageID, ticket, error) {
	done, err := s.hold()
	if err != nil {
		return nil, from, err
	}
	defer done()
	items, err := s.readWaiting(lane, from, limit)
	ids := make([]posthaste.MessageID, len(items))
	for i, it := range items {
		ids[i], from = it.id, it.ticket.next()
	}
	return ids, from, err
}
