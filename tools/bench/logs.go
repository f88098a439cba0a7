package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// logsScenario compares Posthaste with itself: a server with a short log, and others with
// longer ones. All are asked for the same pages in turn, also while they take messages,
// and all deliver at a fixed rate, alone and beside queries that never end. A PostgreSQL is
// asked for the same pages of the longest log if there is one.
type logsScenario struct{}

func (logsScenario) name() string { return "logs" }

const (
	shortLog    = 100_000 // entries beside a long log, or a tenth of that if it is less
	leastLog    = 10_000  // entries of the longest log
	logSpan     = 3 * 24 * time.Hour
	entriesEach = 3.21 // of a message of a history, on average
	runsEach    = 2    // that a batch of a history begins
)

func (s logsScenario) run(ctx context.Context, l *lab) ([]Result, error) {
	var sides []*logStore
	defer func() {
		for _, side := range sides {
			side.close()
		}
	}()
	for _, entries := range l.options.logs() {
		side := &logStore{condition: condition{name: fmt.Sprintf("%d entries", entries)}}
		sides = append(sides, side)
		if err := side.fill(ctx, l, entries); err != nil {
			return nil, err
		}
	}
	var table *sqlLog
	if l.options.DatabaseURL != "" {
		var err error
		if table, err = openSQLLog(ctx, l, sides[len(sides)-1]); err != nil {
			return nil, fmt.Errorf("PostgreSQL: %w", err)
		}
		defer table.close()
	}
	for _, side := range sides {
		if err := side.serve(ctx, l); err != nil {
			return nil, err
		}
	}
	pages := logPages(l.options.logs()[0])
	for _, side := range sides {
		var err error
		if pages, err = side.available(ctx, l, pages); err != nil {
			return nil, err
		}
	}
	if err := s.rounds(ctx, l, sides, table, pages); err != nil {
		return nil, err
	}
	return s.results(sides, table), nil
}

// logs returns how many entries the logs have that are compared, the shortest first.
func (o Options) logs() []int {
	if len(o.Entries) == 1 {
		return []int{min(shortLog, o.Entries[0]/10), o.Entries[0]}
	}
	return o.Entries
}

// spanOf returns how much time a log of n entries spans.
func (o Options) spanOf(entries int) time.Duration {
	if o.Days == 0 {
		return logSpan
	}
	longest := o.Entries[len(o.Entries)-1]
	return time.Duration(float64(o.Days) * float64(24*time.Hour) * float64(entries) / float64(longest))
}

// rounds measures all there is to be measured, in turn. What needs writing comes last
// in a round: it makes the short log longer.
func (s logsScenario) rounds(ctx context.Context, l *lab, sides []*logStore, table *sqlLog, pages []logPage) error {
	for _, side := range sides {
		if err := side.export(ctx, l); err != nil {
			return err
		}
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		if err := s.askAlone(ctx, l, sides, pages); err != nil {
			return err
		}
		if err := s.askExports(ctx, l, sides, pages); err != nil {
			return err
		}
		for _, side := range sides {
			if err := side.deliverBeside(ctx, l); err != nil {
				return err
			}
		}
		err := meanwhile(ctx, func(ctx context.Context) error { return s.write(ctx, l, sides) }, func() error {
			return s.askWriting(ctx, l, sides, pages)
		})
		if err != nil {
			return err
		}
		if table != nil {
			if err := table.askAll(ctx, pages); err != nil {
				return fmt.Errorf("PostgreSQL: %w", err)
			}
		}
	}
	for _, side := range sides {
		side.rounds = append(side.rounds, side.server.memory())
	}
	return nil
}

// askAlone notes how long pages take.
func (s logsScenario) askAlone(ctx context.Context, l *lab, sides []*logStore, pages []logPage) error {
	for _, page := range pages {
		took, err := s.ask(ctx, l, sides, page, briefly, (*logStore).asker)
		if err != nil {
			return err
		}
		for i, side := range sides {
			side.pages = append(side.pages, []reading{took[i]})
		}
	}
	return nil
}

// askExports notes how long it takes until the first entries of an export come.
func (s logsScenario) askExports(ctx context.Context, l *lab, sides []*logStore, pages []logPage) error {
	for _, page := range pages {
		if page.path != messageLog || page.count == 0 {
			continue // runs have no export, and one of nothing reads the whole log
		}
		first, err := s.ask(ctx, l, sides, page, briefly, (*logStore).exportAsker)
		if err != nil {
			return err
		}
		for i, side := range sides {
			side.exports = append(side.exports, []reading{first[i]})
		}
	}
	return nil
}

// askWriting notes how long pages take while messages are written.
func (s logsScenario) askWriting(ctx context.Context, l *lab, sides []*logStore, pages []logPage) error {
	for _, page := range pages {
		took, err := s.ask(ctx, l, sides, page, l.options.atLength(), (*logStore).asker)
		if err != nil {
			return err
		}
		for i, side := range sides {
			side.writing = append(side.writing, []reading{took[i]})
		}
	}
	return nil
}

// ask asks all sides for a page, in turn, several times, and measures what an asker does.
func (logsScenario) ask(ctx context.Context, l *lab, sides []*logStore, page logPage, t turns,
	askerOf func(*logStore, context.Context, *lab, logPage) asker) (took []reading, err error) {
	var askers []asker
	for _, side := range sides {
		askers = append(askers, askerOf(side, ctx, l, page))
	}
	medians, _, err := t.take(askers...)
	for _, median := range medians {
		took = append(took, measured(page.name, "ms", milliseconds(median)))
	}
	return took, err
}

// write publishes to all sides at a fixed rate until it is stopped.
func (logsScenario) write(ctx context.Context, l *lab, sides []*logStore) error {
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for _, side := range sides {
			spawn(func() error {
				return endless(l.options.Rate).apply(ctx, l.address(side.server, 0), newAccount())
			})
		}
	})
}

// results makes a table of each kind of readings.
func (s logsScenario) results(sides []*logStore, table *sqlLog) (results []Result) {
	short, long := sides[0], sides[len(sides)-1]
	tell := func(what string, of func(*logStore) [][]reading) {
		for _, side := range sides[1:] {
			results = append(results, Result{
				Scenario: s.name() + what, Baseline: short.name, Subject: side.name, Measures: compare(of(short), of(side)),
			})
		}
	}
	tell("", func(side *logStore) [][]reading { return side.rounds })
	tell(", time of a page", func(side *logStore) [][]reading { return side.pages })
	tell(", time until the first entries of an export", func(side *logStore) [][]reading { return side.exports })
	tell(", time of a page while messages are written", func(side *logStore) [][]reading { return side.writing })
	if table != nil {
		results = append(results, Result{
			Scenario: s.name() + ", time of a page of the longest log", Baseline: "posthaste", Subject: "postgresql",
			Measures: compare(append(long.pages, long.size), append(table.pages, table.size)),
		})
	}
	return results
}

// logStore is a server with a log.
type logStore struct {
	condition
	history *history
	size    []reading // on disk

	pages, exports, writing [][]reading // of pages, as condition.rounds is of everything else
}

func (c *logStore) data() string { return filepath.Join(c.dir, dataDir) }

// fill writes a history of n entries.
func (c *logStore) fill(ctx context.Context, l *lab, entries int) (err error) {
	if c.dir, err = l.place(); err != nil {
		return err
	}
	h := &history{
		user: benchingUser, size: l.options.Size, until: time.Now(), span: l.options.spanOf(entries),
		total: int(float64(entries) / entriesEach), runs: runsEach,
	}
	c.history = h
	began := time.Now()
	written, err := h.write(ctx, c.data())
	if err != nil {
		return fmt.Errorf("write a log: %w", err)
	}
	if err := compact(ctx, c.data()); err != nil {
		return err
	}
	bytes, err := directorySize(c.data())
	if err != nil {
		return err
	}
	l.note("  %s: stored %d messages in %s", c.name, h.total, time.Since(began).Round(time.Second))
	c.size = []reading{
		measured("disk, compacted", "B/message", float64(bytes)/float64(h.total)),
		measured("disk, compacted, of an entry", "B/entry", float64(bytes)/float64(written.entries)),
	}
	c.rounds = append(c.rounds, append(c.size, writeAmplification(float64(written.bytes), h.total, h.size)))
	return nil
}

// serve starts a server on the history, which removes nothing of it.
func (c *logStore) serve(ctx context.Context, l *lab) (err error) {
	if c.server, err = l.start(ctx, l.server("--keep-logs", "0s", "--keep-runs", "0s"), c.dir); err != nil {
		return err
	}
	c.rounds = append(c.rounds, []reading{measured("start", "ms", milliseconds(c.server.readyAfter))})
	return nil
}
