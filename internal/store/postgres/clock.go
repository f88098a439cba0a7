package postgres

import (
	"log/slog"
	"sync"
	"time"
)

// worthTelling is how far the clock of a node may be from that of its database before
// anybody is told.
const worthTelling = time.Second

// clock compares that of this node with that of the database, which stands for those of
// all others.
type clock struct {
	logger *slog.Logger
	tell   func(ahead time.Duration) // nil: nobody

	mu  sync.Mutex
	off bool // as was told last
}

// compare notes what time it was at the database while it was asked, which began at a time
// of this node and has ended now.
func (c *clock) compare(asked, there time.Time) {
	took := time.Since(asked)
	ahead := asked.Add(took / 2).Sub(there)
	if c.tell != nil {
		c.tell(ahead)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	off := ahead.Abs() > worthTelling+took/2
	if off && !c.off {
		c.logger.Warn("node.clock", "ahead_ms", ahead.Milliseconds(),
			"consequence", "delays, schedules and retries of this node come that much early, or late if it is behind")
	}
	c.off = off
}
