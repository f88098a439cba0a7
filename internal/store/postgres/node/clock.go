package node

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"posthaste/internal/store"
)

// A clock offset from the database beyond warnOffset is logged; beyond maxOffset the node does
// not take part. Stored times never come from a node's clock, but signatures and TLS do. If
// the database's clock is wrong, no node takes part, and nothing becomes due early.
const (
	warnOffset = time.Second
	maxOffset  = 10 * time.Second
)

// clock knows the database's time, and the offset of this node's clock from it.
type clock struct {
	logger   *slog.Logger
	onOffset func(ahead time.Duration) // may be nil
	offset   func() time.Duration      // added to the node's clock, for tests; may be nil

	any bool // take part with any clock

	mu       sync.Mutex
	reported string    // the consequence that was logged last
	excluded error     // why this node takes no part, or nil
	there    time.Time // at the database at the time here
	here     time.Time // by the monotonic clock of this node
}

// now returns the database's time: the last answer, plus what has passed on the monotonic clock.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowAt(time.Now())
}

func (c *clock) nowAt(here time.Time) time.Time { return c.there.Add(here.Sub(c.here)) }

// correct adjusts the known time to the database's answer, given between two local times. It
// starts with the local clock and changes as little as possible: equal clocks stay equal to
// the nanosecond, however slow the answer.
func (c *clock) correct(asked, answered, there time.Time) {
	if c.here.IsZero() {
		c.here, c.there = asked, asked.Round(0)
		if c.offset != nil {
			c.there = c.there.Add(c.offset())
		}
	}
	const rounding = time.Microsecond // of what the database says
	switch {
	case there.Add(rounding).Before(c.nowAt(asked)):
		c.here, c.there = asked, there
	case there.After(c.nowAt(answered)):
		c.here, c.there = answered, there
	}
}

// err returns store.ErrClock while the node does not take part.
func (c *clock) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.excluded
}

// compare notes the database's time, which was asked for at a local time and has arrived now.
// It returns what err returns.
func (c *clock) compare(asked, there time.Time) error {
	answered := time.Now()
	uncertain := answered.Sub(asked) / 2
	ahead := asked.Add(uncertain).Sub(there)
	if c.offset != nil {
		ahead += c.offset()
	}
	if c.onOffset != nil {
		c.onOffset(ahead)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.correct(asked, answered, there)
	consequence := ""
	c.excluded = nil
	switch apart := ahead.Abs() - uncertain; {
	case apart > maxOffset && !c.any:
		consequence = "this node takes no part until its clock is within " + maxOffset.String() + " of that of the database"
		c.excluded = fmt.Errorf("%w: %w: it is %v %s", store.ErrUnavailable, store.ErrClock, ahead.Abs().Round(time.Millisecond),
			map[bool]string{true: "behind", false: "ahead"}[ahead < 0])
	case apart > warnOffset:
		consequence = "none for due times, which go by the clock of the database; signatures of deliveries have wrong dates"
	}
	if consequence != c.reported && consequence != "" {
		c.logger.Warn("node.clock", "ahead_ms", ahead.Milliseconds(), "consequence", consequence)
	}
	c.reported = consequence
	return c.excluded
}
