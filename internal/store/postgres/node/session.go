package node

import (
	"context"
	"sync"
	"time"
)

// spare is how long before others may repeat its attempts a node ends them.
const spare = time.Second

// Session is this process under one number. It expires by the process's own clock, whether
// or not the database can be reached, and never comes back.
type Session struct {
	Number    int64
	Held      context.Context // ends when the session expires
	expire    func()          // idempotent
	lasts     time.Duration   // after each heartbeat
	mu        sync.Mutex
	expiresAt time.Time
	timer     *time.Timer
}

// newSession starts the session of a node whose heartbeat was sent at a time, and renewed its lease.
// onExpire is called when it expires.
func newSession(number int64, sentAt time.Time, lease time.Duration, onExpire func()) *Session {
	t := &Session{Number: number, lasts: lease - spare}
	t.expiresAt = sentAt.Add(t.lasts)
	ctx, cancel := context.WithCancel(context.Background())
	t.Held = ctx
	t.expire = sync.OnceFunc(func() {
		cancel()
		onExpire()
	})
	t.timer = time.AfterFunc(time.Until(t.expiresAt), t.expire)
	return t
}

// Alive asks the clock: a timer may be late.
func (t *Session) Alive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aliveLocked()
}

func (t *Session) aliveLocked() bool {
	if t.Held.Err() == nil && !time.Now().Before(t.expiresAt) {
		t.expire()
	}
	return t.Held.Err() == nil
}

// renew extends the session by a heartbeat sent at a time, and reports whether it is alive.
func (t *Session) renew(sentAt time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := sentAt.Add(t.lasts); t.aliveLocked() && until.After(t.expiresAt) {
		t.expiresAt = until
		t.timer.Reset(time.Until(until))
	}
	return t.aliveLocked()
}

// stop leaves the session without a warning when its time is over.
func (t *Session) stop() { t.timer.Stop() }
