package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store/postgres/pgtest"
)

// clusterScenario compares Posthaste with itself on one PostgreSQL, with one, two and
// three nodes and with each number of partitions, and the first of them and one with the embedded store
// with plain job queues on the same server, if there are some to compare with. Each side but the embedded store has
// a database of its own, which goes with it, and all take the same load in turn, divided among the nodes.
type clusterScenario struct{}

func (clusterScenario) name() string { return clusterName }

const (
	clusterName = "cluster"
	mostNodes   = 3
)

func (s clusterScenario) run(ctx context.Context, l *lab) (results []Result, err error) {
	sides := s.sides(l)
	for _, side := range sides {
		if side.embedded {
			continue
		}
		if side.database, err = l.createDatabase(ctx); err != nil {
			return nil, err
		}
		defer l.dropDatabase(side.database)
		side.url = side.database
		if l.options.Away == 0 {
			continue
		}
		if side.url, err = goAway(ctx, side.url, l.options.Away); err != nil {
			return nil, err
		}
	}
	for number := range l.options.Rounds {
		l.note("%s, round %d of %d", s.name(), number+1, l.options.Rounds)
		for _, side := range sides {
			if err := side.round(ctx, l); err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
		}
	}
	first := slices.IndexFunc(sides, func(side *clusterSide) bool { return !side.jobQueue })
	against := func(baseline, subject *clusterSide) {
		results = append(results, Result{
			Scenario: s.name() + ", " + subject.name,
			Baseline: baseline.name,
			Subject:  subject.name,
			Measures: compare(baseline.rounds, subject.rounds),
		})
	}
	for _, queue := range sides[:first] {
		against(queue, sides[first])
	}
	for _, side := range sides[first+1:] {
		if !side.embedded {
			against(sides[first], side)
			continue
		}
		for _, queue := range sides[:first] {
			against(queue, side)
		}
	}
	return results, nil
}

// sides returns what is compared, in the order of the tables. An earlier build is what all others are
// compared with.
func (clusterScenario) sides(l *lab) (sides []*clusterSide) {
	for _, queue := range []struct{ name, executable string }{{"river", l.options.River}, {"dbos", l.options.DBOS}} {
		if queue.executable != "" {
			sides = append(sides, &clusterSide{name: queue.name, jobQueue: true, nodes: 1, executable: queue.executable, args: jobQueueArgs})
		}
	}
	if l.options.Before != "" {
		args := func(listen, database string) []string { return l.nodeArgs(listen, database, 1) }
		sides = append(sides, &clusterSide{name: "1 node before", nodes: 1, executable: l.options.Before, args: args})
	}
	for _, partitions := range l.options.Partitions {
		for nodes := 1; nodes <= mostNodes; nodes++ {
			args := func(listen, database string) []string { return l.nodeArgs(listen, database, partitions) }
			sides = append(sides, &clusterSide{name: sideName(nodes, partitions), nodes: nodes, executable: l.options.Executable, args: args})
		}
	}
	if sides[0].jobQueue {
		sides = append(sides, &clusterSide{name: "embedded", embedded: true, nodes: 1, executable: l.options.Executable, args: l.server(l.userArgs()...).args})
	}
	return sides
}

// sideName says how many nodes there are, and of partitions if there are several.
func sideName(nodes, partitions int) string {
	name := fmt.Sprintf("%d nodes", nodes)
	if nodes == 1 {
		name = "1 node"
	}
	if partitions > 1 {
		name += fmt.Sprintf(", %d partitions", partitions)
	}
	return name
}

// clusterSide is a program that keeps everything in a database, in one process or several, or in
// the embedded store.
type clusterSide struct {
	name       string
	jobQueue   bool // it is no Posthaste
	embedded   bool // it needs no database
	nodes      int
	executable string
	args       func(listen, place string) []string // the URL of its database, or where the embedded store lies
	database   string                              // the URL of its database
	url        string                              // by which its nodes reach that
	dir        string                              // of the process that was started last; the embedded store keeps it

	rounds [][]reading
}

func (l *lab) nodeArgs(listen, database string, partitions int) []string {
	args := []string{
		"serve", "--listen", listen, "--database-url", database, "--partitions", strconv.Itoa(partitions),
		"--token", l.token, "--destinations", "any",
	}
	return append(args, l.userArgs()...)
}

func (l *lab) userArgs() (args []string) {
	for number := 1; number < l.options.Users; number++ {
		args = append(args, "--users", userName(number)+":"+l.password)
	}
	return args
}

func userName(number int) string { return "bench" + strconv.Itoa(number) }

// tokens are those of the users.
func (l *lab) tokens() []string {
	all := []string{l.token}
	for number := 1; number < l.options.Users; number++ {
		all = append(all, tokenOf(userName(number), l.password))
	}
	return all
}

func jobQueueArgs(listen, database string) []string {
	return []string{"-listen", listen, "-database-url", database}
}

// round starts the processes, applies the load after a warm-up, and ends them.
func (s *clusterSide) round(ctx context.Context, l *lab) error {
	var nodes []*child
	defer func() {
		for _, c := range nodes {
			c.kill()
		}
	}()
	for range s.nodes {
		c, err := s.start(ctx, l)
		if err != nil {
			return err
		}
		nodes = append(nodes, c)
	}
	work := dividedLoad{clients: l.options.Clients, extent: l.options.extent()}
	if l.options.Paced {
		work.rate = l.options.Rate
	}
	warm, err := deliverTo(ctx, l, nodes, dividedLoad{work.clients, work.rate, work.warmUp()})
	if err != nil {
		return err
	}
	before, unknown := s.databaseTime(ctx)
	book, err := deliverTo(ctx, l, nodes, work)
	if err != nil {
		return err
	}
	after, err := s.databaseTime(ctx)
	unknown = errors.Join(unknown, err)
	spent := 0.0
	for _, c := range nodes {
		if err := c.end(); err != nil {
			return err
		}
		spent += c.processorTime().Seconds()
	}
	t := book.tally()
	if t.accepted == 0 {
		return errNothing
	}
	perThousand := spent / (float64(warm.tally().accepted+t.accepted) / 1000)
	costs := []reading{measured("processor time, without the database", "s/1000", perThousand)}
	if unknown == nil {
		costs = append(costs, measured("processor time of the database", "s/1000", (after-before).Seconds()/(float64(t.accepted)/1000)))
	}
	s.rounds = append(s.rounds, append(t.readings(), costs...))
	l.note("  %s: %s messages/s", s.name, decimal(perSecond(t.delivered, t.window)))
	return nil
}

// databaseTime returns the processor time of its database, 0 if it has none.
func (s *clusterSide) databaseTime(ctx context.Context) (time.Duration, error) {
	if s.embedded {
		return 0, nil
	}
	return pgtest.ProcessorTime(ctx, s.database)
}

func (s *clusterSide) start(ctx context.Context, l *lab) (*child, error) {
	if s.dir == "" || !s.embedded {
		var err error
		if s.dir, err = l.place(); err != nil {
			return nil, err
		}
	}
	return spawn(ctx, s.executable, program{
		name: strings.ReplaceAll(s.name, " ", "-"),
		args: func(listen, data string) []string { return s.args(listen, cmp.Or(s.url, data)) },
	}, s.dir)
}

// deliverTo divides a load among nodes, and waits for its messages to arrive.
func deliverTo(ctx context.Context, l *lab, nodes []*child, work dividedLoad) (*account, error) {
	book := newAccount()
	l.sink.use(book)
	var to []address
	for _, token := range l.tokens() {
		for _, c := range nodes {
			of := l.address(c, 0)
			of.token, of.destinations = token, l.sink.urls()
			to = append(to, of)
		}
	}
	err := work.divide(ctx, to, book)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, nodes[0].lastWords())
	}
	return book, book.drain(ctx, patience)
}

// dividedLoad is a load on several nodes: a closedLoop, or an openLoop if it has a rate.
type dividedLoad struct {
	clients, rate int
	extent
}

// divide publishes at each address in turn.
func (d dividedLoad) divide(ctx context.Context, to []address, book *account) error {
	more := d.meter()
	return together(ctx, func(ctx context.Context, spawn func(func() error)) {
		if d.rate == 0 {
			for i := range d.clients {
				spawn(func() error { return publishWhile(ctx, more, to[i%len(to)], book) })
			}
			return
		}
		for i := range to {
			each := openLoop{max(1, d.rate/len(to)), extent{duration: d.duration}}
			if d.messages > 0 {
				each.messages = (d.messages + len(to) - 1 - i) / len(to)
			}
			spawn(func() error {
				sleep(ctx, time.Duration(i)*time.Second/time.Duration(d.rate))
				return each.apply(ctx, to[i], book)
			})
		}
	})
}

// createDatabase makes a database beside the one of the options, and returns its URL.
func (l *lab) createDatabase(ctx context.Context) (string, error) {
	own, err := url.Parse(l.options.DatabaseURL)
	if err != nil {
		return "", errors.New("the database URL cannot be read")
	}
	name := "posthaste_bench_" + strings.ToLower(rand.Text())
	if err := l.execute(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("make a database: %w", err)
	}
	own.Path = "/" + name
	return own.String(), nil
}

// dropDatabase drops what createDatabase has made, also when the run was broken off.
func (l *lab) dropDatabase(database string) {
	own, err := url.Parse(database)
	if err != nil {
		return
	}
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := pgx.Identifier{strings.TrimPrefix(own.Path, "/")}.Sanitize()
	if err := l.execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
		l.note("drop database %s: %v", name, err)
	}
}

// execute runs a statement in the database of the options.
func (l *lab) execute(ctx context.Context, statement string) error {
	db, err := pgx.Connect(ctx, l.options.DatabaseURL)
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, statement)
	return errors.Join(err, db.Close(ctx))
}
