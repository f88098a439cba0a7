package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"posthaste/internal/app"
	"posthaste/internal/bench"
	"posthaste/internal/telemetry"
)

// benchCommand measures this program on this machine, against a bare relay.
type benchCommand struct {
	Scenario []string `placeholder:"NAME" help:"Scenarios to run: publish, latency, backlog, neighbours, runs, restart, logs, follow. All of them by default."`
	Clients  int      `default:"32" help:"Clients that publish at the same time, each waiting for its answer."`
	Duration span     `default:"6s" help:"How long a round publishes."`
	Messages int      `help:"Publish so many messages in a round, however long it takes."`
	Size     int      `default:"512" help:"Bytes of a body; they are random."`
	Rate     int      `default:"100" help:"Messages a second in the latency and neighbours scenarios."`
	Rounds   int      `default:"3" help:"Rounds of each side; medians are reported."`
	Backlog  int      `default:"100000" help:"Delayed messages in the backlog scenario."`
	RunRate  int      `default:"50" help:"Workflow runs a second in the runs scenario, on its steady side."`
	Failed   int      `default:"100000" help:"Failed runs in the restart scenario, on its larger side."`
	Entries  int      `default:"1000000" help:"Log entries in the logs scenario, on its larger side."`
	Dir      string   `placeholder:"DIR" help:"Where to keep data for the time of the run. It is the disk that is measured; the default is the system's temporary directory."`
	Output   string   `default:"table" enum:"table,json" help:"How the report is written: table or json."`

	// Relay makes this the relay that the server is compared with, in a process of
	// its own.
	Relay string `hidden:"" placeholder:"ADDRESS" help:"Run the relay on HOST:PORT, until a signal."`
}

// Validate returns a sentence about the first setting that is wrong.
func (c *benchCommand) Validate() error { return c.options().Check() }

// Run measures and prints the report. Progress goes where log lines go.
func (c *benchCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	if c.Relay != "" {
		return bench.RunRelay(ctx, c.Relay, telemetry.NewLogger(t.Err, slog.LevelInfo, telemetry.FormatText))
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
	return c.print(t, report)
}

func (c *benchCommand) options() bench.Options {
	return bench.Options{
		Scenarios: c.Scenario,
		Clients:   c.Clients,
		Duration:  time.Duration(c.Duration),
		Messages:  c.Messages,
		Size:      c.Size,
		Rate:      c.Rate,
		Rounds:    c.Rounds,
		Backlog:   c.Backlog,
		RunRate:   c.RunRate,
		Failed:    c.Failed,
		Entries:   c.Entries,
		Dir:       c.Dir,
		Version:   app.Version,
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
