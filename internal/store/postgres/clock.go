package postgres

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"posthaste/internal/store"
)

// How far the clock of a node may be from that of its database: beyond worthTelling it is
// logged, and beyond mostApart the node takes no part. Nothing that is stored depends on the
// clock of a node, but signatures and TLS do; and if it is the clock of the database that is
// wrong, all its nodes take no part, and nothing becomes due before its time.
const (
	warnOffset = time.Second
	maxOffset  = 10 * time.Second
)

// clock tells the time of the database, and how far the clock of this node is from it.
type clock struct {
	logger   *slog.Logger
	onOffset func(ahead time.Duration) // nil: nobody
	offset   func() time.Duration      // by how much a test sets the clock of this node ahead; nil: it does not

	any bool // this node takes part all the same

	mu       sync.Mutex
	reported severity
	excluded error     // why this node takes no part; nil: it does
	there    time.Time // at the database at the time here
	here     time.Time // by the monotonic clock of this node
}

// severity is how bad a difference of the clocks is.
type severity int

const (
	negligible severity = iota
	tolerable
	intolerable
)

// Now returns the time of the database, as this node knows it from when it asked last. It
// passes by the monotonic clock of the node, so it does not matter what the other one says.
func (s *Store) Now() time.Time { return s.node.clock.now() }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowAt(time.Now())
}

func (c *clock) nowAt(here time.Time) time.Time { return c.there.Add(here.Sub(c.here)) }

// correct makes the time of the database one that agrees with what it said between two times
// of this node. It begins with the clock of this node and changes as little as it can: where
// the clocks are the same it stays the same to the nanosecond, however long an answer takes.
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

// err returns store.ErrClock while the clock of this node is too far from that of the
// database for it to take part.
func (c *clock) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.excluded
}

// compare notes what time it was at the database while it was asked, which began at a time
// of this node and has ended now. It returns the error of err.
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
	now := negligible
	c.excluded = nil
	switch apart := ahead.Abs() - uncertain; {
	case apart > maxOffset && !c.any:
		now = intolerable
		c.excluded = fmt.Errorf("%w: %w: it is %v %s", store.ErrUnavailable, store.ErrClock, ahead.Abs().Round(time.Millisecond),
			map[bool]string{true: "behind", false: "ahead"}[ahead < 0])
	case apart > warnOffset:
		now = tolerable
	}
	if now != c.reported && now != negligible {
		c.warn(now, ahead)
	}
	c.reported = now
	return c.excluded
}

func (c *clock) warn(now severity, ahead time.Duration) {
	consequence := "none for what is due, which goes by the clock of the database; signatures of deliveries are dated that much wrong"
	if now == intolerable {
		consequence = "this node takes no part until its clock is within " + maxOffset.String() + " of that of the database"
	}
	c.logger.Warn("node.clock", "ahead_ms", ahead.Milliseconds(), "consequence", consequence)
}
