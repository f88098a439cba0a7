package main

import "context"

// latencyScenario compares how long a message takes from its publisher to its
// destination while the programs have time to spare: messages come at a fixed
// rate.
type latencyScenario struct{}

func (latencyScenario) name() string { return "latency" }

func (s latencyScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	work := openLoop{l.options.Rate, l.options.extent()}
	return l.alternate(s.name(), func(p program) ([]reading, error) {
		r, err := l.round(ctx, p, work)
		if err != nil {
			return nil, err
		}
		return r.readings(), r.remove()
	})
}
