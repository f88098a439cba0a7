package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"posthaste/internal/store"
)

// claimingFrom are claims from several databases. One that does not answer soon keeps nobody waiting: what it
// has claimed comes with a later call.
type claimingFrom struct {
	mu   sync.Mutex
	busy map[int]int // databases that have not answered yet, with the slots that they were given
	turn int         // which one comes first
	late []claimedFrom
}

type claimedFrom struct {
	number int // of the database
	limit  int
	claims []store.Claim
	next   time.Time
	err    error
}

// more reports whether the database has more messages that are due than it was asked for.
func (c claimedFrom) more(now time.Time) bool {
	return len(c.claims) > 0 && len(c.claims) == c.limit && !c.next.IsZero() && !c.next.After(now)
}

// Claim implements store.Backend: from one database after the other, for each must know how many claims a user has.
// One gets half of the slots while there are others to be asked.
func (d *Databases) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	claims, err = d.claiming.take(limit)
	away := map[int]error{}
	for from := d.claiming.free(len(d.all)); len(from) > 0; { // Wake signals when the others have answered
		free := limit - len(claims) - d.claiming.given()
		if free <= 0 {
			if len(claims) >= limit {
				next = now
			}
			break
		}
		number := from[0]
		if from = from[1:]; len(from) > 0 {
			free = (free + 1) / 2
		}
		c, answered := d.claimFrom(ctx, now, number, free, len(claims) > 0)
		claims = append(claims, c.claims...)
		switch {
		case !answered:
		case errors.Is(c.err, store.ErrUnavailable):
			away[number] = c.err
		case c.err == nil && c.more(now):
			from = append(from, number)
		default:
			next, err = earliest(next, c.next), errors.Join(err, c.err)
		}
	}
	left := max(0, limit-len(claims)-d.claiming.given())
	for _, s := range d.all { // each has taken for free what the others have left
		s.accepted.lowerFree(left / len(d.all))
	}
	if len(away) == len(d.all) {
		err = errors.Join(slices.Collect(maps.Values(away))...)
	}
	return claims, next, err
}

// claimsWait is how long claims that there are wait for those of another database.
const claimsWait = 50 * time.Millisecond

// claimFrom claims from one database, and reports whether it has answered in time.
func (d *Databases) claimFrom(ctx context.Context, now time.Time, number, limit int, any bool) (c claimedFrom, answered bool) {
	came, gone := make(chan claimedFrom), make(chan struct{})
	defer close(gone)
	d.claiming.start(number, limit)
	d.loops.Go(func() {
		c := claimedFrom{number: number, limit: limit}
		c.claims, c.next, c.err = d.all[number].Claim(context.WithoutCancel(ctx), now, limit)
		select {
		case came <- c:
		case <-gone:
			d.claiming.add(c)
			d.signal()
		}
	})
	patience := d.all[number].patience + claimsWait
	if any {
		patience = claimsWait
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case c = <-came:
		d.claiming.end(number)
		return c, true
	case <-enough.C:
	case <-ctx.Done():
	}
	return c, false
}

// given returns how many slots were given to databases that have not answered yet.
func (c *claimingFrom) given() (slots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, limit := range c.busy {
		slots += limit
	}
	return slots
}

// free returns the databases that have answered, another one first each time.
func (c *claimingFrom) free(databases int) (numbers []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range databases {
		number := (c.turn + i) % databases
		if _, busy := c.busy[number]; !busy {
			numbers = append(numbers, number)
		}
	}
	c.turn++
	return numbers
}

func (c *claimingFrom) start(number, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[number] = limit
}

func (c *claimingFrom) end(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, number)
}

// add keeps an answer that came late.
func (c *claimingFrom) add(late claimedFrom) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, late.number)
	c.late = append(c.late, late)
}

// take returns up to limit claims that came late, and the errors.
func (c *claimingFrom) take(limit int) (claims []store.Claim, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.late {
		late := &c.late[i]
		n := min(limit-len(claims), len(late.claims))
		claims, late.claims = append(claims, late.claims[:n]...), late.claims[n:]
		if !errors.Is(late.err, store.ErrUnavailable) {
			err = errors.Join(err, late.err)
		}
		late.err = nil
	}
	for len(c.late) > 0 && len(c.late[0].claims) == 0 {
		c.late = c.late[1:]
	}
	return claims, err
}
