package main

import (
	"context"
	"errors"
)

// publishScenario compares throughput, and what a message costs: clients publish
// as fast as they are answered, and the clock runs until the last message was
// delivered.
type publishScenario struct{}

func (publishScenario) name() string { return "publish" }

func (s publishScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	work := spread{closedLoop{l.options.Clients, l.options.extent()}, l.sink.urls()}
	return l.alternate(s.name(), func(p program) ([]reading, error) {
		r, err := l.round(ctx, p, work)
		if err != nil {
			return nil, err
		}
		var disk []reading
		if l.options.Before == "" { // its data may have another format
			disk, err = r.disk(ctx)
		}
		return append(r.readings(), disk...), errors.Join(err, r.remove())
	})
}

// spread is a load whose messages go to several destinations in turn.
type spread struct {
	load
	destinations []string
}

func (s spread) warmUp() load { return spread{s.load.warmUp(), s.destinations} }

func (s spread) apply(ctx context.Context, to address, book *account) error {
	to.destinations = s.destinations
	return s.load.apply(ctx, to, book)
}
