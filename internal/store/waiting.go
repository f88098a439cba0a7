package store

import (
	"time"

	"posthaste"
)

// Hold is what keeps the next message of a lane from starting.
type Hold string

// The reasons. They are label values of a metric.
const (
	HoldTurn             Hold = "turn" // its turn comes as soon as the server has a slot for it
	HoldDelayed          Hold = "delayed"
	HoldBackoff          Hold = "backoff"
	HoldQueuePaused      Hold = "queue_paused"
	HoldKeyPaused        Hold = "key_paused"
	HoldQueueParallelism Hold = "queue_parallelism"
	HoldKeyParallelism   Hold = "key_parallelism"
	HoldRate             Hold = "rate"
)

// Waiting names messages that are counted together.
type Waiting struct {
	State posthaste.State // CREATED or RETRY
	Hold  Hold
}

// AllWaiting are all that there are.
var AllWaiting = []Waiting{
	{posthaste.StateCreated, HoldTurn}, {posthaste.StateCreated, HoldDelayed},
	{posthaste.StateCreated, HoldQueuePaused}, {posthaste.StateCreated, HoldKeyPaused},
	{posthaste.StateCreated, HoldQueueParallelism}, {posthaste.StateCreated, HoldKeyParallelism}, {posthaste.StateCreated, HoldRate},
	{posthaste.StateRetry, HoldTurn}, {posthaste.StateRetry, HoldBackoff},
	{posthaste.StateRetry, HoldQueuePaused}, {posthaste.StateRetry, HoldKeyPaused},
	{posthaste.StateRetry, HoldKeyParallelism}, {posthaste.StateRetry, HoldRate},
}

// QueueLag is a queue and when its next message was due, whatever holds it.
type QueueLag struct {
	User, Queue string
	DueAt       time.Time
}

// LaneHead is what a backend knows of a lane and its next message that has not begun.
type LaneHead struct {
	Queue       bool // the lane is a queue
	QueuePaused bool
	QueueFull   bool      // all its slots are used
	DueAt       time.Time // zero: there is none, or that is not known
	KeyPaused   bool      // of the message's flow-control key
	Rate        bool      // the key has no attempt left in its period
	KeyFull     bool      // the key has its parallelism in flight
}

// Hold returns what holds the next message at a time.
func (h *LaneHead) Hold(now time.Time) Hold {
	switch {
	case h.QueuePaused:
		return HoldQueuePaused
	case h.KeyPaused:
		return HoldKeyPaused
	case h.QueueFull:
		return HoldQueueParallelism
	case h.DueAt.After(now):
		return HoldDelayed
	case h.Rate:
		return HoldRate
	case h.KeyFull:
		return HoldKeyParallelism
	}
	return HoldTurn
}

// AddHead counts the next message of a lane, if there is one and it is due.
func (s *Stats) AddHead(head *LaneHead, now time.Time, user, queue string) {
	if head.DueAt.IsZero() || !head.DueAt.Before(now) {
		return
	}
	oldest := &s.OldestDueAt
	if head.QueuePaused || head.KeyPaused {
		oldest = &s.OldestPausedDueAt
	}
	if oldest.IsZero() || head.DueAt.Before(*oldest) {
		*oldest = head.DueAt
	}
	if head.Queue {
		s.Queues = append(s.Queues, QueueLag{user, queue, head.DueAt})
	}
}

// Add adds what another part of the store has.
func (s *Stats) Add(part Stats) {
	for _, due := range []struct{ own, part *time.Time }{{&s.OldestDueAt, &part.OldestDueAt}, {&s.OldestPausedDueAt, &part.OldestPausedDueAt}} {
		if due.own.IsZero() || !due.part.IsZero() && due.part.Before(*due.own) {
			*due.own = *due.part
		}
	}
	if s.Waiting == nil {
		s.Waiting = map[Waiting]int{}
	}
	for of, n := range part.Waiting {
		s.Waiting[of] += n
	}
	s.Queues = append(s.Queues, part.Queues...)
	s.InFlight += part.InFlight
	s.Lanes += part.Lanes
	s.SetAside += part.SetAside
	s.DiskBytes += part.DiskBytes
}

// AddWaiting counts the waiting messages of a lane. Those that wait for a retry are held like the
// next one, but not by its delay and, in a queue, where they have their slots, only by its pause.
func (s *Stats) AddWaiting(head *LaneHead, now time.Time, created, retry int) {
	hold := head.Hold(now)
	if created > 0 {
		s.Waiting[Waiting{posthaste.StateCreated, hold}] += created
	}
	if hold == HoldDelayed || head.Queue && hold != HoldQueuePaused {
		hold = HoldBackoff
	}
	if retry > 0 {
		s.Waiting[Waiting{posthaste.StateRetry, hold}] += retry
	}
}
