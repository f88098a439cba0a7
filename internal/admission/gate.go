// Package admission limits what all requests to a server hold together, fairly between users.
// What is limited, places or bytes, is a number here, and users are names.
package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"posthaste"
)

// Gate divides a capacity among users. When it is exhausted, requests wait in one queue per
// user, and the queues are served round-robin: while both wait, a user with a thousand requests
// gets no more than a user with one.
//
// A user never holds more than a share of the capacity. The rest admits others at once, even
// if the first user holds its share for minutes. A request that needs more than is free is not
// overtaken, so large ones are admitted among small ones.
//
// Waiting slows clients down: a client with a hundred connections has at most a hundred requests
// waiting, and is refused at most a hundred times per Patience. Refusing at once would cost
// more than serving.
//
// A Gate is safe for concurrent use. Make one with New.
type Gate struct {
	options Options

	mu      sync.Mutex
	held    int64
	waiting int
	refused uint64
	users   map[string]*user // those who hold something or wait
	queue   []*user          // those who wait, the next one first
}

// Options configure a gate.
type Options struct {
	Capacity int64         // of all users together
	Share    int64         // of one user; from 1 to Capacity
	Patience time.Duration // how long a request waits before it is refused
	Pauses   bool          // Do keeps its place for a while after its work
}

// user is a user who holds something or waits.
type user struct {
	name  string
	held  int64
	queue []*ticket
}

// ticket is a request that waits.
type ticket struct {
	amount   int64
	admitted chan struct{} // closed when the amount is held
}

// New returns an unused gate.
func New(options Options) *Gate {
	return &Gate{options: options, users: make(map[string]*user)}
}

// Enter waits until the user holds the amount. The caller must then call Leave. An amount above
// the user's share counts as the whole share. The error is the cause of ctx, or, after Patience,
// one with CodeRateLimited if the user asks for more than others who wait, and with
// CodeUnavailable otherwise.
func (g *Gate) Enter(ctx context.Context, name string, amount int64) error {
	waiting := g.tryEnter(name, amount)
	if waiting == nil {
		return nil
	}
	patience := time.NewTimer(g.options.Patience)
	defer patience.Stop()
	select {
	case <-waiting.admitted:
		return nil
	case <-patience.C:
		return g.giveUp(name, waiting, nil)
	case <-ctx.Done():
		return g.giveUp(name, waiting, context.Cause(ctx))
	}
}

// Leave releases an amount that was entered with.
func (g *Gate) Leave(name string, amount int64) { g.Shrink(name, amount, 0) }

// shortWork is the longest work without a pause after it.
const shortWork = time.Millisecond

// Do runs work while the user holds a place, and returns its error, or that of Enter. If the
// gate pauses and others wait, the place stays taken for as long again, unless the work was
// short: work that never stops would slow down the rest of the process on a busy machine. The
// caller does not wait for that.
func (g *Gate) Do(ctx context.Context, user string, work func() error) error {
	if err := g.Enter(ctx, user, 1); err != nil {
		return err
	}
	began := time.Now()
	defer func() {
		if took := time.Since(began); g.options.Pauses && took > shortWork && g.Usage().Waiting > 0 {
			time.AfterFunc(took, func() { g.Leave(user, 1) })
			return
		}
		g.Leave(user, 1)
	}()
	return work()
}

// Shrink releases all but rest of an amount that was entered with. Leave releases the rest.
func (g *Gate) Shrink(name string, amount, rest int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u, amount := g.users[name], g.capped(amount)-g.capped(rest)
	g.held -= amount
	u.held -= amount
	g.forget(u)
	g.admit()
}

// Usage is the state of a gate.
type Usage struct {
	Held    int64  // of the capacity
	Waiting int    // requests
	Refused uint64 // requests, since the start
}

// Usage returns the state of the gate.
func (g *Gate) Usage() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Usage{Held: g.held, Waiting: g.waiting, Refused: g.refused}
}

// capped returns the amount, or the share if that is less.
func (g *Gate) capped(amount int64) int64 { return min(amount, g.options.Share) }

// tryEnter takes the amount and returns nil, or returns a ticket in the user's queue.
func (g *Gate) tryEnter(name string, amount int64) *ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.users[name]
	if u == nil {
		u = &user{name: name}
		g.users[name] = u
	}
	amount = g.capped(amount)
	if len(g.queue) == 0 && g.fits(u, amount) {
		g.take(u, amount)
		return nil
	}
	t := &ticket{amount: amount, admitted: make(chan struct{})}
	u.queue = append(u.queue, t)
	g.waiting++
	if len(u.queue) == 1 {
		g.queue = append(g.queue, u)
	}
	g.admit()
	return t
}

// fits reports whether an amount exceeds neither the capacity nor the user's share.
func (g *Gate) fits(u *user, amount int64) bool {
	return g.held+amount <= g.options.Capacity && !g.overShare(u, amount)
}

func (g *Gate) overShare(u *user, amount int64) bool { return u.held+amount > g.options.Share }

func (g *Gate) take(u *user, amount int64) {
	g.held += amount
	u.held += amount
}

// admit admits waiting requests in the order of the queue. It skips users over their share. It
// stops at a request that fits into the share and not into what is left of the capacity.
func (g *Gate) admit() {
	for i := 0; i < len(g.queue); {
		u := g.queue[i]
		next := u.queue[0]
		if g.overShare(u, next.amount) {
			i++
			continue
		}
		if !g.fits(u, next.amount) {
			return
		}
		g.take(u, next.amount)
		close(next.admitted)
		g.dequeue(u, 0)
		g.moveToBack(u)
	}
}

// moveToBack moves a user, if it waits, to the end of the queue.
func (g *Gate) moveToBack(u *user) {
	if i := slices.Index(g.queue, u); i >= 0 {
		g.queue = append(slices.Delete(g.queue, i, i+1), u)
	}
}

// dequeue removes a user's ticket, and the user from the queue if it was the last.
func (g *Gate) dequeue(u *user, index int) {
	u.queue = slices.Delete(u.queue, index, index+1)
	g.waiting--
	if len(u.queue) == 0 {
		i := slices.Index(g.queue, u)
		g.queue = slices.Delete(g.queue, i, i+1)
	}
}

// giveUp removes a ticket and returns why: the cause, or that Patience is over. It returns nil
// if the ticket was admitted meanwhile.
func (g *Gate) giveUp(name string, t *ticket, cause error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-t.admitted:
		return nil
	default:
	}
	u := g.users[name]
	others := g.waiting - len(u.queue)
	overQuota := others > 0 && len(u.queue)*len(g.queue) > g.waiting
	index := slices.Index(u.queue, t)
	g.dequeue(u, index)
	if index == 0 { // the user's turn is used up
		g.moveToBack(u)
	}
	g.forget(u)
	g.admit() // others may have waited behind this ticket
	if cause != nil {
		return cause
	}
	g.refused++
	if overQuota {
		return posthaste.Errorf(posthaste.CodeRateLimited, "this user asks for more than its share while others wait: send less at a time, and try again")
	}
	return posthaste.Errorf(posthaste.CodeUnavailable, "the server is busy: try again")
}

// forget removes a user who neither holds anything nor waits.
func (g *Gate) forget(u *user) {
	if u.held == 0 && len(u.queue) == 0 {
		delete(g.users, u.name)
	}
}
