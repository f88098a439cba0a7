package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"posthaste/internal/store"
)

// claimingFrom are claims from several databases at a time. One that does not answer keeps nobody waiting
// for long: what it has claimed comes with a later call.
type claimingFrom struct {
	mu   sync.Mutex
	busy map[int]bool // databases that have not answered yet
	turn int          // which one comes first
	late []claimedFrom
}

type claimedFrom struct {
	number int // of the database
	quota  int
	claims []store.Claim
	next   time.Time
	err    error
}

// Claim implements store.Backend. Each database has as many of the free slots; those that have more
// messages share what others leave.
func (d *Databases) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	claims, err = d.claiming.take(limit)
	from := d.claiming.free(len(d.all))
	if len(from) < len(d.all) {
		next = now // or when the others have answered
	}
	var away []error
	for len(from) > 0 && len(claims) < limit {
		var answers []claimedFrom
		answers, from = d.claimFrom(ctx, now, from, limit-len(claims))
		for _, c := range answers {
			claims = append(claims, c.claims...)
			switch {
			case errors.Is(c.err, store.ErrUnavailable):
				away = append(away, c.err)
				continue
			case c.err != nil:
				err = errors.Join(err, c.err)
			case len(c.claims) > 0 && len(c.claims) == c.quota && !c.next.After(now) && !c.next.IsZero():
				from = append(from, c.number)
				continue // it is asked again
			}
			next = earliest(next, c.next)
		}
	}
	if len(claims) == limit {
		next = now
	}
	if len(away) == len(d.all) {
		err = errors.Join(away...)
	}
	return claims, next, err
}

// claimFrom claims from some databases, and returns what they answer in time, and those for whom no slot is
// left.
func (d *Databases) claimFrom(ctx context.Context, now time.Time, from []int, limit int) (answers []claimedFrom, left []int) {
	came, gone := make(chan claimedFrom), make(chan struct{})
	defer close(gone)
	asked := 0
	for i, number := range from {
		quota := (limit + i) / len(from) // together they are the limit
		if quota == 0 {
			left = append(left, number)
			continue
		}
		asked++
		d.claiming.start(number)
		d.loops.Go(func() {
			c := claimedFrom{number: number, quota: quota}
			c.claims, c.next, c.err = d.all[number].Claim(context.WithoutCancel(ctx), now, quota)
			select {
			case came <- c:
			case <-gone:
				d.claiming.add(c)
				d.signal()
			}
		})
	}
	enough := time.NewTimer(d.all[0].patience + claimPatience)
	defer enough.Stop()
	for range asked {
		select {
		case c := <-came:
			d.claiming.end(c.number)
			answers = append(answers, c)
		case <-enough.C:
			return answers, left
		case <-ctx.Done():
			return answers, left
		}
	}
	return answers, left
}

// free returns the databases of which all claims have been answered, another one first each time.
func (c *claimingFrom) free(databases int) (numbers []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range databases {
		if number := (c.turn + i) % databases; !c.busy[number] {
			numbers = append(numbers, number)
		}
	}
	c.turn++
	return numbers
}

func (c *claimingFrom) start(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[number] = true
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
