package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"posthaste/internal/store"
)

// Claim implements store.Backend: from one database after the other, for each must know how many claims a user has.
// One gets half of the slots while there are others to be asked. One that does not answer soon keeps nobody waiting:
// what it has claimed comes with a later call.
func (d *Databases) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	claims, err = d.late.take(limit)
	var away []error
	for from := d.toAsk(); len(from) > 0; { // Wake signals when the others have answered
		free := d.free(limit, claims)
		if free == 0 {
			if len(claims) >= limit {
				next = now
			}
			break
		}
		s := from[0]
		if from = from[1:]; len(from) > 0 {
			free = (free + 1) / 2
		}
		c, answered := d.claimFrom(ctx, now, s, free, len(claims) > 0)
		claims = append(claims, c.claims...)
		switch more := len(c.claims) == free && !c.next.IsZero() && !c.next.After(now); {
		case !answered:
		case errors.Is(c.err, store.ErrUnavailable):
			away = append(away, c.err)
		case c.err == nil && more:
			from = append(from, s)
		default:
			next, err = store.Earlier(next, c.next), errors.Join(err, c.err)
		}
	}
	left := d.free(limit, claims)
	for _, s := range d.all { // each has taken for free what the others have left
		s.accepted.lowerFree(left / len(d.all))
	}
	if len(away) == len(d.all) {
		err = errors.Join(away...)
	}
	return claims, next, err
}

// toAsk returns the databases that have answered, another one first each time.
func (d *Databases) toAsk() []*Store {
	busy, _ := d.late.busy()
	turn := int(d.turn.Add(1)) % len(d.all)
	return slices.DeleteFunc(slices.Concat(d.all[turn:], d.all[:turn]), func(s *Store) bool { return slices.Contains(busy, s) })
}

// free returns how many slots are left beside the claims, and those of databases that have not answered in time.
func (d *Databases) free(limit int, claims []store.Claim) int {
	_, given := d.late.busy()
	return max(0, limit-len(claims)-given)
}

// claimsWait is how long claims that there are wait for those of another database.
const claimsWait = 50 * time.Millisecond

// claimFrom claims from one database, and reports whether it has answered in time.
func (d *Databases) claimFrom(ctx context.Context, now time.Time, s *Store, limit int, any bool) (c claimResult[*Store], answered bool) {
	came, gone := make(chan claimResult[*Store]), make(chan struct{})
	defer close(gone)
	d.late.start(s, limit)
	d.loops.Go(func() {
		c := claimResult[*Store]{from: s}
		c.claims, c.next, c.err = s.Claim(context.WithoutCancel(ctx), now, limit)
		d.late.finish(c, came, gone, d.signal)
	})
	patience := s.patience + claimsWait
	if any {
		patience = claimsWait
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case c = <-came:
		d.late.end(s)
		return c, true
	case <-enough.C:
	case <-ctx.Done():
	}
	return c, false
}
