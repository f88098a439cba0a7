package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"posthaste/internal/store/lsm"
)

// round is one load on a program that was started for it and has ended since.
type round struct {
	tally
	warmedUp int    // messages accepted in the warm-up before
	dir      string // what the program left behind
	costs    []reading
}

var errNothing = errors.New("a round was over before a message was published: give it a longer duration")

// round starts a program in an empty directory, warms it up, applies a load, and
// ends it. The caller removes what is left behind.
func (l *lab) round(ctx context.Context, p program, work load) (*round, error) {
	dir, err := l.place()
	if err != nil {
		return nil, err
	}
	c, err := l.start(ctx, p, dir)
	if err != nil {
		return nil, err
	}
	warm, book, err := l.warmUpAndDeliver(ctx, c, work)
	memory := c.memory()
	numbers, scraping := scrape(ctx, c)
	if err := errors.Join(err, scraping, c.end()); err != nil {
		return nil, err
	}
	r := &round{tally: book.tally(), warmedUp: warm.tally().accepted, dir: dir}
	if r.accepted == 0 {
		return nil, errNothing
	}
	r.costs = append(memory, r.processorTime(c))
	if written, ok := numbers[metricWritten]; ok {
		r.costs = append(r.costs, writeAmplification(written, r.accepted+r.warmedUp, l.options.Size))
	}
	l.note("  %s: %s messages/s", p.name, decimal(perSecond(r.delivered, r.window)))
	return r, nil
}

// writeAmplification is what a store wrote to disk, of the bodies it was given.
func writeAmplification(written float64, messages, size int) reading {
	return measured("written to disk, of bodies", "B/B", written/(float64(messages)*float64(size)))
}

func (l *lab) warmUpAndDeliver(ctx context.Context, c *child, work load) (warm, book *account, err error) {
	warm, err = l.deliver(ctx, c, work.warmUp())
	if err != nil {
		return nil, nil, err
	}
	book, err = l.deliver(ctx, c, work)
	return warm, book, err
}

// remove deletes what the program left behind.
func (r *round) remove() error { return os.RemoveAll(r.dir) }

// readings returns what the round found, but for the disk.
func (r *round) readings() []reading { return append(r.tally.readings(), r.costs...) }

// thousands is the number of messages that the program took in its life.
func (r *round) thousands() float64 { return float64(r.accepted+r.warmedUp) / 1000 }

// processorTime is the cost of a message in processor time: that of the
// program's whole life, so start and warm-up count too.
func (r *round) processorTime(c *child) reading {
	return measured("processor time", "s/1000", c.processorTime().Seconds()/r.thousands())
}

// disk returns what a message takes on disk, as the program left it and after
// compaction. A program without data has no such readings.
func (r *round) disk(ctx context.Context) ([]reading, error) {
	data := filepath.Join(r.dir, dataDir)
	asLeft, err := directorySize(data)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := compact(ctx, data); err != nil {
		return nil, err
	}
	compacted, err := directorySize(data)
	if err != nil {
		return nil, err
	}
	messages := r.thousands() * 1000
	return []reading{
		measured("disk, as left", "B/message", float64(asLeft)/messages),
		measured("disk, compacted", "B/message", float64(compacted)/messages),
	}, nil
}

// compact compacts the store in a directory that no program uses any more.
func compact(ctx context.Context, data string) error {
	s, err := lsm.Open(data, lsm.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(s.Compact(ctx), s.Close())
}

// memory returns what a running program holds, and nothing where the system does
// not tell.
func (c *child) memory() []reading {
	size, ok := residentMemory(c.command.Process.Pid)
	if !ok {
		return nil
	}
	return []reading{measured("resident memory", "MB", float64(size)/megabyte)}
}

// alternate compares Posthaste with its baseline: it measures one round of each in
// turn.
func (l *lab) alternate(name string, measure func(program) ([]reading, error)) ([]Result, error) {
	sides := [2]program{l.baseline(), l.server()}
	var rounds [2][][]reading
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", name, number+1, l.options.Rounds)
		for side, p := range sides {
			readings, err := measure(p)
			if err != nil {
				return nil, err
			}
			rounds[side] = append(rounds[side], readings)
		}
	}
	return []Result{{
		Scenario: name,
		Baseline: sides[0].name,
		Subject:  sides[1].name,
		Measures: compare(rounds[0], rounds[1]),
	}}, nil
}
