package postgres

import (
	"context"
	"sync"
	"time"
)

// ownTime is how long a node counts on its leases after it last said that it lives. Then
// it ends its attempts, which leaves them a second before others may make them.
const sessionTime = leaseTime - time.Second

// tenure is this process under one of the numbers it has among the nodes. It lapses by
// the process's own clock, which goes on while the process does not, and whether or not
// the database can be asked. One that has lapsed does not come back.
type nodeSession struct {
	node      int64
	ctx       context.Context // ends when the tenure lapses
	expire    func()          // lets it lapse; what is told of that is told once
	mu        sync.Mutex
	expiresAt time.Time
	timer     *time.Timer
}

// newTenure returns that of a node which said at a time that it lives. Silent is called
// when it lapses.
func newNodeSession(node int64, said time.Time, silent func()) *nodeSession {
	t := &nodeSession{node: node, expiresAt: said.Add(sessionTime)}
	held, lapse := context.WithCancel(context.Background())
	t.ctx = held
	t.expire = sync.OnceFunc(func() {
		lapse()
		silent()
	})
	t.timer = time.AfterFunc(time.Until(t.expiresAt), t.expire)
	return t
}

// lives reports whether the tenure goes on, by the clock: a timer may be late.
func (t *nodeSession) alive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aliveLocked()
}

func (t *nodeSession) aliveLocked() bool {
	if t.ctx.Err() == nil && !time.Now().Before(t.expiresAt) {
		t.expire()
	}
	return t.ctx.Err() == nil
}

// extend notes that the node said at a time that it lives, and reports whether that came
// before the tenure had lapsed.
func (t *nodeSession) renew(said time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := said.Add(sessionTime); t.aliveLocked() && until.After(t.expiresAt) {
		t.expiresAt = until
		t.timer.Reset(time.Until(until))
	}
	return t.aliveLocked()
}

// forget lets the tenure pass without a word: nobody counts on it.
func (t *nodeSession) stop() { t.timer.Stop() }
