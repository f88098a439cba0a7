// Command bench measures what Posthaste costs on the machine it runs on, as
// ratios taken in one run: against a bare relay that is built on the same
// net/http and keeps nothing, or against Posthaste itself in another condition.
//
// The programs under test run as processes of their own. This process makes the
// load and is the destination, and it enters every message in a ledger, so that
// a message that is lost or comes twice is seen and not only timed. Rounds of
// the two sides alternate and medians are reported, because machines are noisy.
//
// A scenario measures one thing. It is a file of its own and one line in
// scenarios.
package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"posthaste"
)

// Options say what to measure and how thoroughly. Every number is needed, except
// where a comment says what its zero means.
type Options struct {
	Scenarios []string      // which; none: all of them
	Clients   int           // that publish at the same time, each waiting for its answer
	Hosts     int           // that the publish and cluster scenarios publish to, in turn
	Duration  time.Duration // how long a round publishes
	Messages  int           // how many messages a round publishes; 0: as many as fit in Duration
	Size      int           // of a body, in bytes
	Rate      int           // of the latency, neighbours and delay scenarios, in messages a second
	Rounds    int           // for each side
	Backlog   int           // delayed messages that the backlog scenario stores
	Finished  int           // delivered messages that it stores before; 0: none
	Sleeping  int           // runs that it stores before, each in a sleep; 0: none
	RunRate   int           // of the runs scenario, in runs a second
	Steps     int           // of a run in it
	Failed    int           // failed runs that the restart scenario stores
	Entries   []int         // of the logs in the logs scenario, ascending; of one, there is a shorter one beside it
	Days      int           // that the longest of these spans, and shorter ones as many less as they have entries; 0: each spans three
	// DatabaseURL is of a PostgreSQL that is asked for the same pages in the logs
	// scenario, in a schema made for it, and which the nodes of the cluster scenario
	// share, in databases made for it; "": none, and no cluster.
	DatabaseURL string
	Away        time.Duration // a round trip between the nodes of the cluster scenario and their database, beside what it takes
	Partitions  []int         // of each user in the cluster scenario, whose sides have each number
	Users       int           // for whom the cluster scenario publishes; 0: 1
	Paced       bool          // whether the cluster scenario publishes Rate messages a second, in place of as many as it can
	River, DBOS string        // programs that the cluster scenario compares with, see tools/river and tools/dbos; "": none
	Dir         string        // in which the server's data is kept for the time of the run; "": the system's temporary directory

	Executable string    // the posthaste program
	Before     string    // an earlier one that publish, latency, cluster, runs and delay compare with; "": the relay
	Self       string    // this program, which is the relay and the readers as well
	Version    string    // of the posthaste program, for the report
	Progress   io.Writer // takes a line for each round; nil: nobody
}

// scenario measures one thing.
type scenario interface {
	// name is what the command line and the report call it: a lower-case word.
	name() string
	// run compares two sides, in one table or several. It leaves nothing running.
	run(ctx context.Context, l *lab) ([]Result, error)
}

// scenarios are all there are, in the order in which they run.
var scenarios = []scenario{
	publishScenario{},
	latencyScenario{},
	backlogScenario{},
	neighboursScenario{},
	overloadScenario{},
	runsScenario{},
	restartScenario{},
	dlqScenario{},
	logsScenario{},
	followScenario{},
	delayScenario{},
	clusterScenario{},
}

// Scenarios returns the names of all scenarios.
func Scenarios() []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name()
	}
	return names
}

// Run runs the chosen scenarios one after the other.
func Run(ctx context.Context, options Options) (*Report, error) {
	if err := options.Check(); err != nil {
		return nil, err
	}
	l, err := newLab(options)
	if err != nil {
		return nil, err
	}
	defer l.close()
	report, err := newReport(options, l.dir)
	if err != nil {
		return nil, err
	}
	for _, s := range scenarios {
		if !options.wants(s) {
			continue
		}
		results, err := s.run(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name(), err)
		}
		report.Results = append(report.Results, results...)
	}
	return report, nil
}

func (o Options) wants(s scenario) bool {
	if len(o.Scenarios) == 0 {
		return s.name() != clusterName || o.DatabaseURL != ""
	}
	return slices.Contains(o.Scenarios, s.name())
}

// Check returns a posthaste.Error with CodeInvalid for the first option that makes
// no sense.
func (o Options) Check() error {
	for _, name := range o.Scenarios {
		if !slices.Contains(Scenarios(), name) {
			return posthaste.Invalidf("scenario %q is not known: %s are", name, strings.Join(Scenarios(), ", "))
		}
	}
	if slices.Contains(o.Scenarios, clusterName) && o.DatabaseURL == "" {
		return posthaste.Invalidf("scenario %s needs a database: give the URL of a PostgreSQL with --database-url", clusterName)
	}
	if o.Messages == 0 && o.Duration <= 0 {
		return posthaste.Invalidf("duration %s is too short: a round publishes for a while, or a number of messages", o.Duration)
	}
	return o.checkNumbers()
}

func (o Options) checkNumbers() error {
	if o.Away < 0 {
		return posthaste.Invalidf("away %s is too short: 0 is the least", o.Away)
	}
	for _, option := range []struct {
		name         string
		value, least int
	}{
		{"clients", o.Clients, 1},
		{"hosts", o.Hosts, 1},
		{"messages", o.Messages, 0},
		{"size", o.Size, stampLen},
		{"rate", o.Rate, 1},
		{"rounds", o.Rounds, 1},
		{"backlog", o.Backlog, 1},
		{"finished", o.Finished, 0},
		{"sleeping", o.Sleeping, 0},
		{"run rate", o.RunRate, 1},
		{"steps", o.Steps, 1},
		{"failed", o.Failed, fewFailed},
		{"days", o.Days, 0},
	} {
		if option.value < option.least {
			return tooSmall(option.name, option.value, option.least)
		}
	}
	return o.checkEntries()
}

// checkEntries requires a log that is long, and those before it to be shorter.
func (o Options) checkEntries() error {
	if len(o.Entries) == 0 {
		return posthaste.Invalidf("entries have no value: give the length of a log, or of several with commas between them")
	}
	before := 0
	for i, entries := range o.Entries {
		switch last := i == len(o.Entries)-1; {
		case last && entries < leastLog:
			return tooSmall("entries", entries, leastLog)
		case entries < leastLog/10:
			return tooSmall("entries", entries, leastLog/10)
		case entries <= before:
			return posthaste.Invalidf("entries %d follow %d: each log is longer than the one before", entries, before)
		}
		before = entries
	}
	return nil
}

func tooSmall(name string, value, least int) error {
	return posthaste.Invalidf("%s %d is too small: at least %d is needed", name, value, least)
}

// extent is what a round publishes.
func (o Options) extent() extent {
	return extent{messages: o.Messages, duration: o.Duration}
}
