package lanes

import (
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Class is how a message counts in its lane.
type Class uint8

// The classes. A claimed message has the one that it had before.
const (
	Uncounted Class = iota // it has ended
	Created
	Retry
)

// Class returns how a message that has a place in a lane counts.
func (w *Waiting) Class() Class {
	switch {
	case w.Ended:
		return Uncounted
	case w.Retried > 0:
		return Retry
	}
	return Created
}

// Change is that of one message.
type Change struct {
	Lane        ID
	Before, Now Class
}

// Length is how many messages of each class a lane has.
type Length [Retry + 1]int

// lengths are those of all lanes. What was stored at the start is counted while they change already,
// so until then they may be negative, and mean nothing.
type lengths struct {
	of    map[ID]Length
	whole bool
}

func (l *lengths) add(lane ID, class Class, n int) {
	sum := l.of[lane]
	sum[class] += n
	sum[Uncounted] = 0
	if sum == (Length{}) {
		delete(l.of, lane)
	} else {
		l.of[lane] = sum
	}
}

// Recount counts changes, once they are durable.
func (s *Scheduler) Recount(changes []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.lengths.add(c.Lane, c.Before, -1)
		s.lengths.add(c.Lane, c.Now, 1)
	}
}

// Counted adds what was stored before the first change. Stats has lengths from then on.
func (s *Scheduler) Counted(stored map[ID]Length) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, sum := range stored {
		for class, n := range sum {
			s.lengths.add(lane, Class(class), n)
		}
	}
	s.lengths.whole = true
}

// Stats returns the numbers of claims, lanes and waiting messages, and when the messages that have
// waited longest were due, as far as they are in memory.
func (s *Scheduler) Stats(now time.Time) store.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := store.Stats{InFlight: len(s.leases), Lanes: len(s.lanes)}
	claimed := map[*lane]Length{}
	for _, held := range s.leases {
		sum := claimed[held.lane]
		sum[held.Waiting.Class()]++
		claimed[held.lane] = sum
	}
	if s.lengths.whole {
		stats.Waiting = map[store.Waiting]int{}
	}
	for id, l := range s.lanes {
		head := s.head(l)
		stats.AddHead(&head, now, id.User, id.Name)
		if waits, holds := s.lengths.of[id], claimed[l]; s.lengths.whole {
			stats.AddWaiting(&head, now, waits[Created]-holds[Created], waits[Retry]-holds[Retry])
		}
	}
	return stats
}

// head returns what is known of the next message of a lane, as far as it is in memory. What cannot
// be read is not paused.
func (s *Scheduler) head(l *lane) store.LaneHead {
	head := store.LaneHead{Queue: l.strict()}
	if head.Queue {
		queue := l.queue
		if queue == nil {
			queue, _ = s.disk.ReadQueue(l.id.User, l.id.Name)
		}
		if queue != nil {
			head.QueuePaused, head.QueueFull = queue.Paused, l.inflight+l.begun >= queue.Parallelism
		}
	}
	name, next := "", l.first()
	switch {
	case next != nil:
		head.DueAt, name = time.UnixMilli(next.Waiting.ReadyMS), next.Waiting.FlowKey
	case l.partial && l.wakesMS > 0:
		head.DueAt = time.UnixMilli(l.wakesMS)
	}
	if name == "" && l.id.Kind == posthaste.LaneFlow {
		name = l.id.Name
	}
	if name != "" {
		s.headOfKey(&head, l, s.flowID(l.id.User, name))
	}
	return head
}

// headOfKey returns why the flow-control key of a lane's next message holds it back, if it does.
func (s *Scheduler) headOfKey(head *store.LaneHead, l *lane, id flowID) {
	limit := s.limiters[id]
	if limit == nil {
		key, _ := s.disk.ReadFlowKey(id.user, id.key)
		head.KeyPaused = key != nil && key.Paused
		return
	}
	head.KeyPaused = limit.key.Paused
	if l.list != nil {
		return // it is looked at again
	}
	for _, wait := range l.keys {
		head.Rate = head.Rate || wait.list == &limit.resting
		head.KeyFull = head.KeyFull || wait.list == &limit.waiting
	}
}
