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
	work := closedLoop{l.options.Clients, l.options.extent()}
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
