package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/bench"
	"posthaste/internal/telemetry"
)

// benchCommand measures this program on this machine, against a bare relay.
type benchCommand struct {
	Scenarios []string `arg:"" name:"scenario" optional:"" help:"Scenarios to run: publish, latency, backlog, neighbours, overload, runs, restart, dlq, logs, follow, and cluster, which needs a database. All of them by default."`

	Clients  int   `default:"32" help:"Clients that publish at the same time, each waiting for its answer."`
	Duration span  `default:"6s" help:"How long a round publishes."`
	Messages int   `help:"Publish so many messages in a round, however long it takes."`
	Size     int   `default:"512" help:"Bytes of a body; they are random."`
	Rate     int   `default:"100" help:"Messages a second in the latency and neighbours scenarios, and beside the queries of the logs scenario."`
	Rounds   int   `default:"3" help:"Rounds of each side; medians are reported."`
	Backlog  int   `default:"100000" help:"Delayed messages in the backlog scenario."`
	Finished int   `help:"Delivered messages that the backlog scenario stores before."`
	RunRate  int   `default:"50" help:"Workflow runs a second in the runs scenario, on its steady side."`
	Failed   int   `default:"100000" help:"Failed runs in the restart scenario, and dead letters of each kind in the dlq scenario, on their larger side."`
	Entries  []int `default:"1000000" placeholder:"N,…" help:"Log entries in the logs scenario: of its longer log, or of several logs that are compared with the first, the shortest first."`
	Days     int   `placeholder:"N" help:"Days that the longest log of the logs scenario spans; a shorter one spans as many less as it has entries. By default each spans three."`
	// The environment does not name it: servers are told of their own database there.
	DatabaseURL        string  `name:"database-url" env:"-" placeholder:"URL" help:"PostgreSQL to ask for the same pages in the logs scenario, postgres://USER:PASSWORD@HOST:PORT/DATABASE. It is filled with as many entries, in a schema that is made for it and dropped. The cluster scenario makes databases beside it and drops them."`
	River              string  `placeholder:"PROGRAM" help:"Job queue that the cluster scenario compares with, as make river builds it."`
	Dir                string  `placeholder:"DIR" help:"Where to keep data for the time of the run. It is the disk that is measured; the default is the system's temporary directory."`
	LeastUnderOverload float64 `default:"0.8" help:"What has to be delivered of the peak in the overload scenario, or the program ends with exit code 1: 0 to 1."`
	oneOutput

	// Relay makes this the relay that the server is compared with, in a process of
	// its own.
	Relay string `hidden:"" placeholder:"ADDRESS" help:"Run the relay on HOST:PORT, until a signal."`
	// Readers makes this those who read beside deliveries, in a process of their own.
	Readers      string `hidden:"" placeholder:"ADDRESS" help:"Ask the server on HOST:PORT for heavy pages of the log, until a signal."`
	ReadersToken string `hidden:"" placeholder:"TOKEN" help:"Whose log it is."`
}

// Validate returns a sentence about the first setting that is wrong.
func (c *benchCommand) Validate() error {
	if !(c.LeastUnderOverload >= 0 && c.LeastUnderOverload <= 1) {
		return posthaste.Invalidf("least-under-overload %g is out of bounds: 0 to 1 is accepted", c.LeastUnderOverload)
	}
	return firstError(c.database().check(), c.options().Check())
}

// database is the PostgreSQL as a setting that every server has.
func (c *benchCommand) database() *databaseSettings {
	return &databaseSettings{DatabaseURL: c.DatabaseURL, DatabaseConnections: minConnections}
}

// Run measures and prints the report. Progress goes where log lines go.
func (c *benchCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	if c.Relay != "" {
		return bench.RunRelay(ctx, c.Relay, telemetry.NewLogger(t.Err, slog.LevelInfo, telemetry.FormatText))
	}
	if c.Readers != "" {
		return bench.RunReaders(ctx, c.Readers, c.ReadersToken, os.Stdin, t.Out)
	}
	options := c.options()
	options.Progress = t.Err
	var err error
	if options.Executable, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	report, err := bench.Run(ctx, options)
	if err != nil {
		return err
	}
	if err := c.print(t, report); err != nil {
		return err
	}
	return report.CheckOverload(c.LeastUnderOverload)
}

func (c *benchCommand) options() bench.Options {
	return bench.Options{
		Scenarios:   c.Scenarios,
		Clients:     c.Clients,
		Duration:    time.Duration(c.Duration),
		Messages:    c.Messages,
		Size:        c.Size,
		Rate:        c.Rate,
		Rounds:      c.Rounds,
		Backlog:     c.Backlog,
		Finished:    c.Finished,
		RunRate:     c.RunRate,
		Failed:      c.Failed,
		Entries:     c.Entries,
		Days:        c.Days,
		DatabaseURL: c.DatabaseURL,
		River:       c.River,
		Dir:         c.Dir,
		Version:     app.Version,
	}
}

func (c *benchCommand) print(t terminal, report *bench.Report) error {
	if c.Output != "json" {
		return report.WriteTable(t.Out)
	}
	encoder := json.NewEncoder(t.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
