package bench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"posthaste/internal/background"
)

// deliverBeside notes how long deliveries take at a fixed rate: alone, beside queries that
// never end, and beside threads that compute and do nothing else, which shows what the
// machine makes of any work that gives way. They take turns, so that what changes meanwhile,
// of the store or of the machine, does for all of them.
func (c *logStore) deliverBeside(ctx context.Context, l *lab) error {
	alone := &company{how: "alone"}
	queries := &company{how: "beside queries", beside: func(ctx context.Context) error { return c.query(ctx, l) }}
	computing := &company{how: "beside computing", beside: compute}
	order := []*company{alone, queries, computing}
	for range turnsOfCompany {
		for _, beside := range order {
			if err := beside.deliver(ctx, l, c.server); err != nil {
				return err
			}
		}
		slices.Reverse(order) // so that none always follows the same other
	}
	if alone.p99() == 0 || computing.p99() == 0 {
		return errors.New("nothing was delivered")
	}
	c.rounds = append(c.rounds, slices.Concat(alone.readings(), queries.readings(), computing.readings(), []reading{
		measured("delivered beside queries, p99, of alone", "ms/ms", float64(queries.p99())/float64(alone.p99())),
		measured("delivered beside queries, p99, of beside computing", "ms/ms", float64(queries.p99())/float64(computing.p99())),
	}))
	return nil
}

// turnsOfCompany is how often each has its turn, for as small a part of a round.
const turnsOfCompany = 4

// company is what deliveries at a fixed rate go on beside, and how long they took.
type company struct {
	how    string
	beside func(context.Context) error // nil: nothing

	accepted, lost, again int
	took                  []time.Duration // ascending
}

// deliver applies the fixed rate for a turn.
func (c *company) deliver(ctx context.Context, l *lab, server *child) error {
	work := func() error {
		_, book, err := l.warmUpAndDeliver(ctx, server, openLoop{l.options.Rate, l.options.extent().part(turnsOfCompany)})
		if err != nil {
			return err
		}
		t := book.tally()
		c.accepted, c.lost, c.again = c.accepted+t.accepted, c.lost+t.lost, c.again+t.duplicates
		c.took = append(c.took, t.delivering...)
		slices.Sort(c.took)
		return nil
	}
	if c.beside == nil {
		return work()
	}
	return meanwhile(ctx, c.beside, work)
}

func (c *company) p99() time.Duration { return quantile(c.took, 0.99) }

func (c *company) readings() []reading {
	return []reading{
		counted("accepted", c.accepted),
		counted("lost", c.lost),
		counted("delivered again", c.again),
		measured("delivered "+c.how+", p50", "ms", milliseconds(quantile(c.took, 0.50))),
		measured("delivered "+c.how+", p99", "ms", milliseconds(c.p99())),
	}
}

// compute keeps as many threads busy as a server gives its readers, of the same priority,
// until it is stopped.
func compute(ctx context.Context) error {
	count := max(1, runtime.NumCPU()/2)
	threads := background.Start(count)
	defer threads.Close()
	var busy sync.WaitGroup
	for range count {
		busy.Go(func() {
			threads.Do(func() {
				for ctx.Err() == nil {
				}
			})
		})
	}
	busy.Wait()
	return nil
}
