package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"posthaste"
)

// command is the command line.
type command struct {
	Scenarios []string `arg:"" name:"scenario" optional:"" help:"Scenarios to run: publish, latency, backlog, neighbours, overload, runs, restart, dlq, logs, follow, delay, and cluster, which needs a database. All of them by default."`

	Posthaste string        `placeholder:"PROGRAM" default:"../../bin/posthaste" help:"The program to measure, as make build makes it."`
	Before    string        `placeholder:"PROGRAM" help:"An earlier build that publish, latency and cluster compare with, in place of the relay or one node, runs, in place of a fixed rate, and delay, in place of itself with ten followers."`
	Clients   int           `default:"32" help:"Clients that publish at the same time, each waiting for its answer."`
	Hosts     int           `default:"1" help:"Hosts that the publish and cluster scenarios publish to, in turn."`
	Duration  time.Duration `default:"6s" help:"How long a round publishes."`
	Messages  int           `help:"Messages to publish in a round, however long it takes."`
	Size      int           `default:"512" help:"Bytes of a body; they are random."`
	Rate      int           `default:"100" help:"Messages a second in the latency, neighbours and delay scenarios, and beside the queries of the logs scenario."`
	Rounds    int           `default:"3" help:"Rounds of each side; medians are reported."`
	Backlog   int           `default:"100000" help:"Delayed messages in the backlog scenario."`
	Finished  int           `help:"Delivered messages that the backlog scenario stores before."`
	Sleeping  int           `help:"Sleeping workflow runs that the backlog scenario stores before."`
	RunRate   int           `default:"50" help:"Workflow runs a second in the runs scenario, on its steady side."`
	Steps     int           `default:"3" help:"Steps of a run in the runs scenario."`
	Failed    int           `default:"100000" help:"Failed runs in the restart scenario, and dead letters of each kind in the dlq scenario, on their larger side."`
	Entries   []int         `default:"1000000" placeholder:"N,…" help:"Log entries in the logs scenario: of its longer log, or of several logs that are compared with the first, the shortest first."`
	Days      int           `placeholder:"N" help:"Days that the longest log of the logs scenario spans; shorter ones span proportionally fewer. By default each spans three."`

	DatabaseURL        string        `name:"database-url" placeholder:"URL" help:"PostgreSQL to ask for the same pages in the logs scenario, postgres://USER:PASSWORD@HOST:PORT/DATABASE. It is filled with as many entries, in a schema that is made for it and dropped. The cluster scenario makes databases beside it and drops them."`
	Away               time.Duration `help:"Round trip that is added between the nodes of the cluster scenario and their database, as 1.2ms."`
	Partitions         []int         `default:"1" placeholder:"N,…" help:"In how many partitions users are divided in the cluster scenario: each number is measured with one, two and three nodes."`
	Users              int           `default:"1" help:"Users for whom the cluster scenario publishes, in turn."`
	Paced              bool          `help:"Has the cluster scenario publish --rate messages a second, in place of as many as it can."`
	River              string        `placeholder:"PROGRAM" help:"Job queue that the cluster scenario compares with, as make river builds it."`
	Dbos               string        `placeholder:"PROGRAM" help:"Another one, as make dbos builds it."`
	Dir                string        `placeholder:"DIR" help:"Where to keep data during the run. It is the disk that is measured; the default is the system's temporary directory."`
	LeastUnderOverload float64       `default:"0.8" help:"Share of the peak that has to be delivered in the overload scenario, 0 to 1. Below it the exit code is 1."`
	Output             string        `default:"table" enum:"table,json" help:"How the report is written: table, for people, or json."`

	Relay        string `hidden:"" placeholder:"ADDRESS" help:"Run the relay on HOST:PORT, until a signal."`
	Readers      string `hidden:"" placeholder:"ADDRESS" help:"Ask the server on HOST:PORT for heavy pages of the log, until a signal."`
	ReadersToken string `hidden:"" placeholder:"TOKEN" help:"Token of the user whose log the readers read."`
}

func main() {
	var c command
	parsed := kong.Parse(&c, kong.Name("bench"), kong.Description("Measures what Posthaste costs on this machine, as ratios taken in one run."))
	ctx, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer forget()
	parsed.FatalIfErrorf(c.run(ctx))
}

// Validate returns a sentence about the first setting that is wrong.
func (c *command) Validate() error {
	if !(c.LeastUnderOverload >= 0 && c.LeastUnderOverload <= 1) {
		return posthaste.Invalidf("least-under-overload %g is out of bounds: 0 to 1 is accepted", c.LeastUnderOverload)
	}
	if u, err := url.Parse(c.DatabaseURL); c.DatabaseURL != "" && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return posthaste.Invalidf("database-url is not the URL of a PostgreSQL")
	}
	return c.options().Check()
}

// run measures and prints the report. Progress goes to standard error.
func (c *command) run(ctx context.Context) error {
	if c.Relay != "" {
		return RunRelay(ctx, c.Relay, slog.Default())
	}
	if c.Readers != "" {
		return RunReaders(ctx, c.Readers, c.ReadersToken, os.Stdin, os.Stdout)
	}
	options := c.options()
	options.Progress = os.Stderr
	var err error
	if options.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if options.Version, err = version(ctx, c.Posthaste); err != nil {
		return err
	}
	report, err := Run(ctx, options)
	if err != nil {
		return err
	}
	if err := c.print(report); err != nil {
		return err
	}
	return report.CheckOverload(c.LeastUnderOverload)
}

// version asks a posthaste program for its version.
func version(ctx context.Context, program string) (string, error) {
	text, err := exec.CommandContext(ctx, program, "version", "--output", "json").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w (make build makes it)", program, err)
	}
	var answer struct{ Version string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("read the version of %s: %w", program, err)
	}
	return answer.Version, nil
}

func (c *command) options() Options {
	return Options{
		Scenarios:   c.Scenarios,
		Clients:     c.Clients,
		Hosts:       c.Hosts,
		Duration:    c.Duration,
		Messages:    c.Messages,
		Size:        c.Size,
		Rate:        c.Rate,
		Rounds:      c.Rounds,
		Backlog:     c.Backlog,
		Finished:    c.Finished,
		Sleeping:    c.Sleeping,
		RunRate:     c.RunRate,
		Steps:       c.Steps,
		Failed:      c.Failed,
		Entries:     c.Entries,
		Days:        c.Days,
		DatabaseURL: c.DatabaseURL,
		Away:        c.Away,
		Partitions:  c.Partitions,
		Users:       c.Users,
		Paced:       c.Paced,
		River:       c.River,
		DBOS:        c.Dbos,
		Dir:         c.Dir,
		Executable:  c.Posthaste,
		Before:      c.Before,
	}
}

func (c *command) print(report *Report) error {
	if c.Output != "json" {
		return report.WriteTable(os.Stdout)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
