package posthaste

import "time"

// Queue is a lane with a name, whose messages start in the order they became
// due. A message keeps its slot until it has ended, through all of its retries
// and callbacks.
type Queue struct {
	Name        string
	Parallelism int // messages that may hold a slot at once; at least 1
	Paused      bool
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// DefaultParallelism is the parallelism of a queue that was given none: strict
// order.
const DefaultParallelism = 1
