package main

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
	var read readSoFar
	alone := &company{how: "alone", begin: nothing}
	queries := &company{how: "beside queries", begin: func(ctx context.Context) (end func() error, err error) { return c.query(ctx, l, &read) }}
	computing := &company{how: "beside computing", begin: compute}
	order := []*company{alone, queries, computing}
	for range turnsOfCompany {
		for _, beside := range order {
			if err := beside.deliver(ctx, l, c.server); err != nil {
				return err
			}
		}
		slices.Reverse(order) // so that none is always the first
	}
	if alone.p99() == 0 || computing.p99() == 0 {
		return errors.New("nothing was delivered")
	}
	c.rounds = append(c.rounds, slices.Concat(alone.readings(), queries.readings(), computing.readings(), read.readings(), []reading{
		measured("delivered beside queries, p99, of alone", "ms/ms", float64(queries.p99())/float64(alone.p99())),
		measured("delivered beside queries, p99, of beside computing", "ms/ms", float64(queries.p99())/float64(computing.p99())),
	}))
	return nil
}

// turnsOfCompany is how often each has its turn, for as small a part of a round.
const turnsOfCompany = 4

// company is what deliveries at a fixed rate go on beside, and how long they took.
type company struct {
	how   string
	begin func(context.Context) (end func() error, err error)

	accepted, lost, again int
	took                  []time.Duration // ascending
}

// deliver applies the fixed rate for a turn.
func (c *company) deliver(ctx context.Context, l *lab, server *child) (err error) {
	end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
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

func nothing(context.Context) (end func() error, err error) { return func() error { return nil }, nil }

// compute keeps as many threads busy as a server gives its readers, of the same priority,
// until it is ended.
func compute(ctx context.Context) (end func() error, err error) {
	ctx, stop := context.WithCancel(ctx)
	count := max(1, runtime.NumCPU()/2)
	threads := background.Start(count)
	var busy sync.WaitGroup
	for range count {
		busy.Go(func() {
			threads.Do(func() {
				for ctx.Err() == nil {
				}
			})
		})
	}
	return func() error {
		stop()
		busy.Wait()
		threads.Close()
		return nil
	}, nil
}
