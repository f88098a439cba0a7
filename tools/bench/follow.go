package main

import (
	"context"
	"fmt"
	"os"
)

// followScenario compares Posthaste with itself: a server whose log nobody reads, and
// one whose log has followers, each with a filter of its own, who lose their connections
// now and then. Both take the same load in turn, as fast as its clients are answered, and
// every follower has to get exactly what its filter lets pass. A second server whose log
// nobody reads tells how far equals are apart.
type followScenario struct{}

func (followScenario) name() string { return "follow" }

const (
	followedLabels   = 10 // each of which has a follower; there are as many with other filters
	entriesDelivered = 3  // of a message: created, active, delivered
)

func (s followScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	unread := &followSide{condition: condition{name: "unread"}}
	followed := &followSide{condition: condition{name: "followed"}, filters: followedFilters(l.sink.url())}
	control := &followSide{condition: condition{name: "unread, too"}}
	sides := []*followSide{unread, followed, control}
	for _, side := range sides {
		defer side.close()
		if err := side.open(ctx, l); err != nil {
			return nil, err
		}
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		for i := range sides { // another one begins each time
			if err := sides[(number+i)%len(sides)].round(ctx, l); err != nil {
				return nil, err
			}
		}
	}
	for _, side := range sides {
		if err := side.end(); err != nil {
			return nil, err
		}
	}
	var results []Result
	for _, side := range sides[1:] {
		results = append(results, Result{
			Scenario: s.name(),
			Baseline: unread.name,
			Subject:  side.name,
			Measures: compare(unread.rounds, side.rounds),
		})
	}
	return results, nil
}

// followSide is a server with or without followers.
type followSide struct {
	condition
	filters  []followed // of its followers
	messages int        // that it has taken so far
	own      float64    // processor time of this process for them: of the load, and of the followers
}

// round applies the load and notes what this process has taken for it.
func (c *followSide) round(ctx context.Context, l *lab) error {
	before, _ := processorTime(os.Getpid())
	err := c.apply(ctx, l)
	after, _ := processorTime(os.Getpid())
	c.own += (after - before).Seconds()
	return err
}

// apply applies the load after a warm-up. Followers have to get every entry of both.
func (c *followSide) apply(ctx context.Context, l *lab) error {
	f, err := follow(ctx, l, c.server, c.filters)
	if err != nil {
		return fmt.Errorf("follow the log: %w%s", err, c.server.lastWords())
	}
	defer f.close()
	work := labelledLoop{closedLoop{l.options.Clients, l.options.extent()}, followedLabels}
	warm, book, err := l.warmUpAndDeliver(ctx, c.server, work)
	if err != nil {
		return err
	}
	c.add(l, book)
	messages := warm.tally().accepted + book.tally().accepted
	c.messages += messages
	if len(c.filters) == 0 {
		return nil
	}
	return f.drain(ctx, entriesDelivered*messages)
}

// end ends the server, by which it is known what processor time it took.
func (c *followSide) end() error {
	if err := c.server.end(); err != nil {
		return err
	}
	thousands := float64(c.messages) / 1000
	costs := []reading{measured("processor time", "s/1000", c.server.processorTime().Seconds()/thousands)}
	if c.own > 0 {
		costs = append(costs, measured("processor time of load and followers", "s/1000", c.own/thousands))
	}
	c.rounds = append(c.rounds, costs)
	return nil
}

// labelledLoop is a closedLoop whose clients take turns in labelling all that they
// publish: the first label 0, the next label 1, and so on.
type labelledLoop struct {
	closedLoop
	labels int
}

func (o labelledLoop) warmUp() load {
	return labelledLoop{closedLoop{o.clients, o.extent.warmUp()}, o.labels}
}

func (o labelledLoop) apply(ctx context.Context, to address, book *account) error {
	more := o.meter()
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for n := range o.clients {
			own := to
			own.label = labelOf(n % o.labels)
			spawn(func() error { return publishWhile(ctx, more, own, book) })
		}
	})
}

func labelOf(n int) string { return fmt.Sprint("label-", n) }
