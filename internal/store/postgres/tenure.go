package postgres

import (
	"context"
	"sync"
	"time"
)

// ownTime is how long a node counts on its leases after it last said that it lives. Then
// it ends its attempts, which leaves them a second before others may make them.
const ownTime = leaseTime - time.Second

// tenure is this process under one of the numbers it has among the nodes. It lapses by
// the process's own clock, which goes on while the process does not, and whether or not
// the database can be asked. One that has lapsed does not come back.
type tenure struct {
	node   int64
	held   context.Context // ends when the tenure lapses
	end    func()          // lets it lapse; what is told of that is told once
	mu     sync.Mutex
	until  time.Time
	lapses *time.Timer
}

// newTenure returns that of a node which said at a time that it lives. Silent is called
// when it lapses.
func newTenure(node int64, said time.Time, silent func()) *tenure {
	t := &tenure{node: node, until: said.Add(ownTime)}
	held, lapse := context.WithCancel(context.Background())
	t.held = held
	t.end = sync.OnceFunc(func() {
		lapse()
		silent()
	})
	t.lapses = time.AfterFunc(time.Until(t.until), t.end)
	return t
}

// lives reports whether the tenure goes on, by the clock: a timer may be late.
func (t *tenure) lives() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.livesLocked()
}

func (t *tenure) livesLocked() bool {
	if t.held.Err() == nil && !time.Now().Before(t.until) {
		t.end()
	}
	return t.held.Err() == nil
}

// extend notes that the node said at a time that it lives, and reports whether that came
// before the tenure had lapsed.
func (t *tenure) extend(said time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := said.Add(ownTime); t.livesLocked() && until.After(t.until) {
		t.until = until
		t.lapses.Reset(time.Until(until))
	}
	return t.livesLocked()
}

// forget lets the tenure pass without a word: nobody counts on it.
func (t *tenure) forget() { t.lapses.Stop() }
