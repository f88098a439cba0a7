package main

import (
	"context"
	"errors"
	"slices"
	"time"
)

// deliverBeside measures delivery times at a fixed rate, in turns: alone, and beside queries
// that never end. Turns expose both to the same changes of the store and of the machine.
func (c *logStore) deliverBeside(ctx context.Context, l *lab) error {
	var read readSoFar
	alone := &company{how: "alone", begin: nothing}
	queries := &company{how: "beside queries", begin: func(ctx context.Context) (end func() error, err error) { return c.query(ctx, l, &read) }}
	order := []*company{alone, queries}
	for range turnsOfCompany {
		for _, beside := range order {
			if err := beside.deliver(ctx, l, c.server); err != nil {
				return err
			}
		}
		slices.Reverse(order) // so that none is always the first
	}
	if alone.p99() == 0 {
		return errors.New("nothing was delivered")
	}
	c.rounds = append(c.rounds, slices.Concat(alone.readings(), queries.readings(), read.readings(), []reading{
		measured("delivered beside queries, p99, of alone", "ms/ms", float64(queries.p99())/float64(alone.p99())),
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
