package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"posthaste/internal/background"
)

// logsScenario compares Posthaste with itself: a server with a short log, and others with
// longer ones. All are asked for the same pages in turn, also while they take messages,
// and all deliver at a fixed rate, alone, beside queries that never end and beside threads
// that compute. A PostgreSQL is asked for the same pages of the longest log if there is one.
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

// spanOf returns how much time a log of so many entries spans.
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

// askAlone notes how long pages take, and what is read for them.
func (s logsScenario) askAlone(ctx context.Context, l *lab, sides []*logStore, pages []logPage) error {
	for _, page := range pages {
		before, err := s.scrape(ctx, sides)
		if err != nil {
			return err
		}
		took, asked, err := s.ask(ctx, l, sides, page, briefly, (*logStore).asker)
		if err != nil {
			return err
		}
		after, err := s.scrape(ctx, sides)
		if err != nil {
			return err
		}
		for i, side := range sides {
			more := func(metric string) float64 { return after[i][metric] - before[i][metric] }
			read := (more(metricEntriesRead) + more(metricIndexBlocks)) / max(more(metricReturned), float64(asked))
			side.pages = append(side.pages, []reading{took[i]})
			if page.path == runLog {
				continue // its runs are no entries
			}
			side.reads = append(side.reads, []reading{measured(page.name, "read/entry", read)})
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
		first, _, err := s.ask(ctx, l, sides, page, briefly, (*logStore).exportAsker)
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
		took, _, err := s.ask(ctx, l, sides, page, l.options.atLength(), (*logStore).asker)
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
	askerOf func(*logStore, context.Context, *lab, logPage) asker) (took []reading, asked int, err error) {
	var askers []asker
	for _, side := range sides {
		askers = append(askers, askerOf(side, ctx, l, page))
	}
	medians, asked, err := t.take(askers...)
	for _, median := range medians {
		took = append(took, measured(page.name, "ms", milliseconds(median)))
	}
	return took, asked, err
}

// scrape returns the metrics of each side.
func (logsScenario) scrape(ctx context.Context, sides []*logStore) (metrics []map[string]float64, err error) {
	for _, side := range sides {
		values, err := scrape(ctx, side.server)
		if err != nil {
			return nil, err
		}
		metrics = append(metrics, values)
	}
	return metrics, nil
}

// write publishes to all sides at a fixed rate until it is stopped.
func (logsScenario) write(ctx context.Context, l *lab, sides []*logStore) error {
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		for _, side := range sides {
			spawn(func() error {
				return endless(l.options.Rate).apply(ctx, l.address(side.server, 0), newLedger())
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
	tell(", entries and blocks of the index read for an entry", func(side *logStore) [][]reading { return side.reads })
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

	pages, exports, writing, reads [][]reading // of pages, as condition.rounds is of everything else
}

func (c *logStore) data() string { return filepath.Join(c.dir, dataDir) }

// fill writes a history of so many entries.
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

// deliverBeside notes how long deliveries take at a fixed rate: alone, beside queries that
// never end, and beside threads that compute and do nothing else, which shows what the
// machine makes of any work that gives way.
func (c *logStore) deliverBeside(ctx context.Context, l *lab) error {
	defer collectSeldom()()
	alone, err := c.deliverSteadily(ctx, l, "alone")
	if err != nil {
		return err
	}
	queries, err := c.deliverMeanwhile(ctx, l, "beside queries", func(ctx context.Context) error { return c.query(ctx, l) })
	if err != nil {
		return err
	}
	computing, err := c.deliverMeanwhile(ctx, l, "beside computing", compute)
	if err != nil {
		return err
	}
	if alone == 0 || computing == 0 {
		return errors.New("nothing was delivered")
	}
	c.rounds = append(c.rounds, []reading{
		measured("delivered beside queries, p99, of alone", "ms/ms", float64(queries)/float64(alone)),
		measured("delivered beside queries, p99, of beside computing", "ms/ms", float64(queries)/float64(computing)),
	})
	return nil
}

// collectSeldom lets this process collect its garbage hardly ever, until undone: its heap is
// small, pages that are asked for would have it collected several times a second, and who
// measures would wait for that.
func collectSeldom() (undo func()) {
	const percent = 4000 // 160 MB at least
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}

// deliverMeanwhile is deliverSteadily beside other work.
func (c *logStore) deliverMeanwhile(ctx context.Context, l *lab, how string, beside func(context.Context) error) (p99 time.Duration, err error) {
	err = meanwhile(ctx, beside, func() (err error) {
		p99, err = c.deliverSteadily(ctx, l, how)
		return err
	})
	return p99, err
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

// deliverSteadily applies the fixed rate and returns the 99th percentile of deliveries.
func (c *logStore) deliverSteadily(ctx context.Context, l *lab, how string) (p99 time.Duration, err error) {
	_, book, err := l.warmUpAndDeliver(ctx, c.server, openLoop{l.options.Rate, l.options.extent()})
	if err != nil {
		return 0, err
	}
	t := book.tally()
	p99 = quantile(t.delivering, 0.99)
	c.rounds = append(c.rounds, []reading{
		counted("accepted", t.accepted),
		counted("lost", t.lost),
		counted("delivered again", t.duplicates),
		measured("delivered "+how+", p50", "ms", milliseconds(quantile(t.delivering, 0.50))),
		measured("delivered "+how+", p99", "ms", milliseconds(p99)),
	})
	return p99, nil
}
