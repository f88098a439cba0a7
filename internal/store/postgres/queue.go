package postgres

import (
	"time"

	"posthaste"
)

func newQueue(name string, now time.Time) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism, CreatedAt: now, UpdatedAt: now}
}

func queueLane(user, name string) laneID {
	return laneOf(&posthaste.Message{User: user, Queue: name})
}

// cancelledAtOnce bounds the messages that one commit of DeleteQueue cancels.
const cancelledAtOnce = 500
