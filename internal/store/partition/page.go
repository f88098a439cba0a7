package partition

import (
	"context"

	"golang.org/x/sync/errgroup"

	"posthaste"
	"posthaste/internal/store"
)

// part is what a page of a log has of one partition.
type part struct {
	query store.EventQuery // of what comes after what was read
	user  string           // the partition
	read  []store.Entry    // and not shown
	more  bool             // entries may follow those
	tired bool             // it has looked for them for long enough
}

// fill reads some entries, unless there are any.
func (p *part) fill(ctx context.Context, s *Store, limit int) error {
	if len(p.read) > 0 || !p.more || p.tired {
		return nil
	}
	p.query.Limit = limit
	next, more, err := s.Backend.Events(ctx, p.user, p.query, func(e *store.Entry) error {
		own := *e
		own.Message = whole(e.Message)
		p.read = append(p.read, own)
		return nil
	})
	p.more, p.tired = more, len(p.read) == 0
	if p.query.OldestFirst {
		p.query.Low = next
	} else {
		p.query.High = next
	}
	return err
}

// at returns where what is not shown begins, and whether there is or may be anything.
func (p *part) at() (at posthaste.Position, more bool) {
	switch {
	case len(p.read) > 0:
		return p.read[0].Position, true
	case p.query.OldestFirst:
		return p.query.Low, p.more
	}
	return p.query.High, p.more
}

// page merges the logs of a user's partitions.
type page []*part

// first returns the part that comes next and where that is, nil if nothing does.
func (all page) first() (next *part, at posthaste.Position) {
	for _, p := range all {
		its, more := p.at()
		if more && (next == nil || (its < at) == p.query.OldestFirst) {
			next, at = p, its
		}
	}
	return next, at
}

// together is how many partitions are read at the same time, each on a connection of its own.
const together = 4

// fill reads ahead in those parts of which nothing is left: enough for a page of that number of entries if they
// are spread evenly.
func (all page) fill(ctx context.Context, s *Store, entries int) error {
	const spare = 16
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(together)
	for _, p := range all {
		reading.Go(func() error { return p.fill(ctx, s, min(entries, entries/len(all)+entries/(4*len(all))+spare)) })
	}
	return reading.Wait()
}

// Events implements store.Log.
func (s *Store) Events(ctx context.Context, user string, query store.EventQuery, visit func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	d, done, err := s.below.Reading(ctx)
	if err != nil {
		return 0, false, err
	}
	defer done(&err)
	if d.Whole() {
		return s.Backend.Events(ctx, user, query, visit)
	}
	// What one partition may still commit below what another one shows stays out.
	end, err := s.below.CloseLogs(ctx, d.All(user), query.High)
	if err != nil {
		return 0, false, err
	}
	query.High = min(query.High, end)
	var all page
	for _, partition := range d.All(user) {
		all = append(all, &part{query: query, user: partition, more: true})
	}
	budget := store.NewPageBudget(query.Bytes)
	for left := max(1, query.Limit); ; left-- {
		if left > 0 {
			if err := all.fill(ctx, s, left); err != nil {
				return 0, false, err
			}
		}
		next, at := all.first()
		if next == nil {
			return 0, false, nil
		}
		if left == 0 || len(next.read) == 0 || !budget.Take(next.read[0].Size()) {
			return at, true, nil
		}
		if err := visit(&next.read[0]); err != nil {
			return 0, false, err
		}
		next.read = next.read[1:]
	}
}
