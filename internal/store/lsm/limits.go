package lsm

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/flow"
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

// UpdateQueue implements store.Queues.
func (s *Store) UpdateQueue(ctx context.Context, now time.Time, user, name string, change func(*posthaste.Queue) error) error {
	return s.writer.do(ctx, func(c *commit) error {
		stored, err := queues.load(c, user, name)
		if err != nil {
			return err
		}
		q := posthaste.Queue{Name: name}
		if stored != nil {
			q = *stored
		}
		if err := change(&q); err != nil {
			return err
		}
		if q.UpdatedAt = now; q.CreatedAt.IsZero() {
			q.CreatedAt = now
		}
		s.saveQueue(c, user, &q)
		return nil
	})
}

// Queue implements store.Queues.
func (s *Store) Queue(_ context.Context, user, name string) (_ store.QueueStatus, err error) {
	done, err := s.reading()
	if err != nil {
		return store.QueueStatus{}, err
	}
	defer done(&err)
	q, err := queues.get(s.db, user, name)
	if err != nil {
		return store.QueueStatus{}, err
	}
	return queueStatus(s.db, user, q)
}

// Queues implements store.Queues.
func (s *Store) Queues(_ context.Context, user, after string) (list store.List[store.QueueStatus], err error) {
	done, err := s.reading()
	if err != nil {
		return list, err
	}
	defer done(&err)
	part, err := queues.part(s.db, user, after)
	if err != nil {
		return list, err
	}
	list.Next = part.Next
	for _, q := range part.Items {
		status, err := queueStatus(s.db, user, q)
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, status)
	}
	return list, nil
}

// QueueNames implements store.Queues.
func (s *Store) QueueNames(_ context.Context, user string) ([]string, error) {
	return read(s, func() ([]string, error) { return queues.names(s.db, user) })
}

func queueStatus(r pebble.Reader, user string, q *posthaste.Queue) (store.QueueStatus, error) {
	lane := laneID{user, posthaste.Lane{Kind: posthaste.LaneQueue, Name: q.Name}}
	status := store.QueueStatus{Queue: *q}
	err := scan(r, appendLane(nil, lane), func(_, value []byte) error {
		if w, err := parseWaiting(value); err == nil && !w.ended {
			status.Lag++
		}
		return nil
	})
	return status, err
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

// UpdateFlowKey implements store.FlowKeys.
func (s *Store) UpdateFlowKey(ctx context.Context, now time.Time, user, name string, change func(*posthaste.FlowKey) error) error {
	return s.writer.do(ctx, func(c *commit) error {
		stored, err := flowKeys.load(c, user, name)
		if err != nil {
			return err
		}
		key := posthaste.FlowKey{Key: name}
		if stored != nil {
			key = *stored
		}
		if window, _, known := s.scheduler.use(user, name); known {
			key.WindowStartedAt, key.WindowCount = window.StartedAt, window.Count
		}
		before := key
		if err := change(&key); err != nil {
			return err
		}
		if key.CreatedAt.IsZero() {
			key.CreatedAt = now
		}
		key.Use(now)
		reset := !key.WindowStartedAt.Equal(before.WindowStartedAt) || key.WindowCount != before.WindowCount
		if reset && s.scheduler.resetWindow(user, name, flow.Window{StartedAt: key.WindowStartedAt, Count: key.WindowCount}) {
			reset = false // a window that goes on from now
		}
		s.saveFlowKey(c, user, key, reset)
		return nil
	})
}

// FlowKey implements store.FlowKeys.
func (s *Store) FlowKey(_ context.Context, now time.Time, user, name string) (_ store.FlowStatus, err error) {
	done, err := s.reading()
	if err != nil {
		return store.FlowStatus{}, err
	}
	defer done(&err)
	key, err := flowKeys.get(s.db, user, name)
	if err != nil {
		return store.FlowStatus{}, err
	}
	queued, err := s.queuedUnderKeys(now, user, maxCounted)
	if err != nil {
		return store.FlowStatus{}, err
	}
	return s.flowStatus(now, user, key, queued[name])
}

// FlowKeys implements store.FlowKeys.
func (s *Store) FlowKeys(_ context.Context, now time.Time, user, contains, after string) (list store.List[store.FlowStatus], err error) {
	done, err := s.reading()
	if err != nil {
		return list, err
	}
	defer done(&err)
	part, err := flowKeys.part(s.db, user, after)
	if err != nil {
		return list, err
	}
	list.Next = part.Next
	queued, err := s.queuedUnderKeys(now, user, maxCounted)
	if err != nil {
		return list, err
	}
	for _, key := range part.Items {
		if !strings.Contains(key.Key, contains) {
			continue
		}
		status, err := s.flowStatus(now, user, key, queued[key.Key])
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, status)
	}
	return list, nil
}

// maxCounted bounds how many waiting messages are looked at to count those under a key:
// in all queues of its user, and in its own lane.
const maxCounted = 100_000

// queuedUnderKeys counts the due messages in a user's queues by flow-control key. It looks at up
// to limit of them. A message in a queue waits in the queue's lane, so it reads all queues.
func (s *Store) queuedUnderKeys(now time.Time, user string, limit int) (map[string]int, error) {
	due, seen := map[string]int{}, 0
	prefix := append(appendUser([]byte{kindWaiting}, user), byte(posthaste.LaneQueue))
	err := scan(s.db, prefix, func(_, value []byte) error {
		if seen++; seen > limit {
			return errEnough
		}
		if w, err := parseWaiting(value); err == nil && w.flowKey != "" && !w.ended && !milliTime(w.readyMS).After(now) {
			due[w.flowKey]++
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return due, err
}

// flowStatus returns the status of a key with a number of due messages in queues.
func (s *Store) flowStatus(now time.Time, user string, key *posthaste.FlowKey, queued int) (store.FlowStatus, error) {
	status := store.FlowStatus{FlowKey: *key}
	window, inflight, known := s.scheduler.use(user, key.Key)
	if !known {
		window = flow.Window{StartedAt: key.WindowStartedAt, Count: key.WindowCount}
	}
	window = window.Current(key.FlowLimit, now)
	status.WindowStartedAt, status.WindowCount, status.InFlight = window.StartedAt, window.Count, inflight
	lane := laneID{user, posthaste.Lane{Kind: posthaste.LaneFlow, Name: key.Key}}
	own := 0
	err := scan(s.db, appendLane(nil, lane), func(k, _ []byte) error {
		if own == maxCounted || parseTicket(k).order > posthaste.LastPosition(now) {
			return errEnough
		}
		own++
		return nil
	})
	status.Waiting = max(0, queued+own-inflight)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return status, err
}
