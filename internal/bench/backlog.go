package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// backlogScenario compares Posthaste with itself: the same load on an empty store,
// and beside a backlog of messages for the same destination that are not due for
// long. Then the server is killed, and its start compared with that on an empty
// store.
type backlogScenario struct{}

func (backlogScenario) name() string { return "backlog" }

const (
	backlogDelay   = 24 * time.Hour
	backlogClients = 128 // the more publish together, the fewer syncs it takes
)

func (s backlogScenario) run(ctx context.Context, l *lab) (Result, error) {
	dir, err := l.place()
	if err != nil {
		return Result{}, err
	}
	empty, full, err := s.beforeAndAfter(ctx, l, dir)
	if err != nil {
		return Result{}, err
	}
	again, err := l.start(ctx, l.server(), dir)
	if err != nil {
		return Result{}, fmt.Errorf("after kill: %w", err)
	}
	full = append(full, again.startUp())
	return Result{
		Scenario: s.name(),
		Baseline: "empty",
		Subject:  "backlog",
		Measures: compare(empty, full),
	}, errors.Join(again.end(), os.RemoveAll(dir))
}

// beforeAndAfter measures a server with an empty store, and then with a backlog,
// and kills it.
func (s backlogScenario) beforeAndAfter(ctx context.Context, l *lab, dir string) (empty, full [][]reading, err error) {
	c, err := l.start(ctx, l.server(), dir)
	if err != nil {
		return nil, nil, err
	}
	defer c.kill()
	if empty, err = s.rounds(ctx, l, c, "empty"); err != nil {
		return nil, nil, err
	}
	filling, err := s.fill(ctx, l, c)
	if err != nil {
		return nil, nil, err
	}
	if full, err = s.rounds(ctx, l, c, "backlog"); err != nil {
		return nil, nil, err
	}
	return append(empty, c.startUp()), append(full, filling), nil
}

// rounds applies the load after a warm-up, as often as there are rounds.
func (s backlogScenario) rounds(ctx context.Context, l *lab, c *child, side string) ([][]reading, error) {
	work := closedLoop{l.options.Clients, l.options.extent()}
	if _, err := l.deliver(ctx, c, work.warmUp()); err != nil {
		return nil, err
	}
	var rounds [][]reading
	for number := range l.options.Rounds {
		book, err := l.deliver(ctx, c, work)
		if err != nil {
			return nil, err
		}
		t := book.tally()
		l.note("%s, %s, round %d of %d: %s messages/s", s.name(), side, number+1, l.options.Rounds, decimal(perSecond(t.delivered, t.window)))
		rounds = append(rounds, append(t.readings(), c.memory()...))
	}
	return rounds, nil
}

// fill publishes the backlog.
func (s backlogScenario) fill(ctx context.Context, l *lab, c *child) ([]reading, error) {
	book := newLedger()
	work := closedLoop{backlogClients, extent{messages: l.options.Backlog}}
	if err := work.apply(ctx, l.address(c, backlogDelay), book); err != nil {
		return nil, fmt.Errorf("fill: %w%s", err, c.lastWords())
	}
	took := book.elapsed()
	l.note("%s: stored %d delayed messages in %s", s.name(), l.options.Backlog, took.Round(time.Second))
	return []reading{measured("filling", "messages/s", perSecond(l.options.Backlog, took))}, nil
}

// startUp is the time from starting a program to its being ready.
func (c *child) startUp() []reading {
	return []reading{measured("start-up", "ms", milliseconds(c.readyAfter))}
}
