// Package admission decides who goes on when more is asked of a server than it
// can do at once.
//
// It relies on nothing: what is shared, requests at work or bytes of memory, is
// a number to it, and users are names.
package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"posthaste"
)

// Gate shares a quantity among users, and makes those wait for whom there is none
// left. They wait in one line for each user, and the lines take turns: a user who
// asks for a thousand times as much as another gets no more than that one, as long
// as both wait.
//
// A user never holds more than a share of the whole, so that what is left lets
// others in at once, even if what the first one holds takes minutes. Nobody
// overtakes a turn that waits for room: what is large comes in among what is small.
//
// Waiting is what holds clients back: one with a hundred connections can have no
// more than a hundred requests that wait, and is refused a hundred times in the
// patience of the gate at most. To refuse at once would cost more than to serve.
//
// A Gate may be used by many goroutines. Make one with New.
type Gate struct {
	options Options

	mu      sync.Mutex
	held    int64
	waiting int
	refused uint64
	users   map[string]*user // those who hold something or wait
	turns   []*user          // those who wait, in the order of their turns
}

// Options say what a gate shares. All are needed.
type Options struct {
	Capacity int64         // what may be held at once, by all users together
	Share    int64         // what a user may hold of it; from 1 to Capacity
	Patience time.Duration // how long who waits is kept before being refused
}

// user is what a gate knows of one.
type user struct {
	name string
	held int64
	line []*ticket
}

// ticket is a place in a line.
type ticket struct {
	amount   int64
	admitted chan struct{} // closed when the amount is held
}

// New returns a gate of which nothing is held.
func New(options Options) *Gate {
	return &Gate{options: options, users: make(map[string]*user)}
}

// Enter returns nil when the user holds the amount, which has to be given back by
// Leave. An amount above the share of a user waits for all of that share. Otherwise
// the error is the cause of ctx, or one with CodeRateLimited for a user who asks for
// more than others do, and with CodeUnavailable for who waited in vain as all did.
func (g *Gate) Enter(ctx context.Context, name string, amount int64) error {
	place := g.ask(name, amount)
	if place == nil {
		return nil
	}
	patience := time.NewTimer(g.options.Patience)
	defer patience.Stop()
	select {
	case <-place.admitted:
		return nil
	case <-patience.C:
		return g.giveUp(name, place, nil)
	case <-ctx.Done():
		return g.giveUp(name, place, context.Cause(ctx))
	}
}

// Leave gives back what Enter was given for.
func (g *Gate) Leave(name string, amount int64) { g.Shrink(name, amount, 0) }

// Shrink gives back what Enter was given for but the rest, for which Leave gives it back.
func (g *Gate) Shrink(name string, amount, rest int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u, amount := g.users[name], g.bounded(amount)-g.bounded(rest)
	g.held -= amount
	u.held -= amount
	g.forget(u)
	g.admit()
}

// Usage is what a gate does at a moment.
type Usage struct {
	Held    int64  // of the capacity
	Waiting int    // users' requests in line
	Refused uint64 // since the start
}

// Usage returns what is held, who waits, and how many were refused.
func (g *Gate) Usage() Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Usage{Held: g.held, Waiting: g.waiting, Refused: g.refused}
}

// bounded makes an amount one that can be had.
func (g *Gate) bounded(amount int64) int64 { return min(amount, g.options.Share) }

// ask takes the amount, or else a place in the user's line.
func (g *Gate) ask(name string, amount int64) *ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.users[name]
	if u == nil {
		u = &user{name: name}
		g.users[name] = u
	}
	amount = g.bounded(amount)
	if len(g.turns) == 0 && g.fits(u, amount) {
		g.take(u, amount)
		return nil
	}
	place := &ticket{amount: amount, admitted: make(chan struct{})}
	u.line = append(u.line, place)
	g.waiting++
	if len(u.line) == 1 {
		g.turns = append(g.turns, u)
	}
	g.admit()
	return place
}

// fits reports whether there is room for an amount, for all and for the user.
func (g *Gate) fits(u *user, amount int64) bool {
	return g.held+amount <= g.options.Capacity && !g.beyondShare(u, amount)
}

func (g *Gate) beyondShare(u *user, amount int64) bool { return u.held+amount > g.options.Share }

func (g *Gate) take(u *user, amount int64) {
	g.held += amount
	u.held += amount
}

// admit lets in whose turns have come. A user who has its share is passed over, for
// it waits for itself; one for whom there is no room is not.
func (g *Gate) admit() {
	for i := 0; i < len(g.turns); {
		u := g.turns[i]
		next := u.line[0]
		if g.beyondShare(u, next.amount) {
			i++
			continue
		}
		if !g.fits(u, next.amount) {
			return
		}
		g.take(u, next.amount)
		close(next.admitted)
		g.step(u, 0)
		g.moveBehind(u)
	}
}

// moveBehind has a user's next turn, if it waits for one, come after those of all others.
func (g *Gate) moveBehind(u *user) {
	if i := slices.Index(g.turns, u); i >= 0 {
		g.turns = append(slices.Delete(g.turns, i, i+1), u)
	}
}

// step takes a place out of a line, and the line out of the turns if it was the last.
func (g *Gate) step(u *user, index int) {
	u.line = slices.Delete(u.line, index, index+1)
	g.waiting--
	if len(u.line) == 0 {
		i := slices.Index(g.turns, u)
		g.turns = slices.Delete(g.turns, i, i+1)
	}
}

// giveUp leaves the line and returns why: the cause, or that patience has ended. It
// returns nil if the turn has come meanwhile.
func (g *Gate) giveUp(name string, place *ticket, cause error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-place.admitted:
		return nil
	default:
	}
	u := g.users[name]
	others := g.waiting - len(u.line)
	crowding := others > 0 && len(u.line)*len(g.turns) > g.waiting
	index := slices.Index(u.line, place)
	g.step(u, index)
	if index == 0 { // it was its turn that was given up
		g.moveBehind(u)
	}
	g.forget(u)
	g.admit() // the place may have been what others waited behind
	if cause != nil {
		return cause
	}
	g.refused++
	if crowding {
		return posthaste.Errorf(posthaste.CodeRateLimited, "this user asks for more than its share while others wait: send less at a time, and try again")
	}
	return posthaste.Errorf(posthaste.CodeUnavailable, "the server is busy and has no room for this request: try again")
}

// forget drops what is known of a user who neither holds anything nor waits.
func (g *Gate) forget(u *user) {
	if u.held == 0 && len(u.line) == 0 {
		delete(g.users, u.name)
	}
}
