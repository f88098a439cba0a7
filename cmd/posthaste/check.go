package main

import (
	"fmt"
	"strconv"

	"posthaste/internal/app"
)

// checkCommand looks for damage in a data directory or a backup.
type checkCommand struct {
	Data string `env:"-" placeholder:"DIR" required:"" help:"Data directory or backup that no server has open. Nothing in it is changed."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *checkCommand) Validate() error { return named("data", c.Data) }

// Run checks the directory, and fails if it finds a problem.
func (c *checkCommand) Run(t terminal) error {
	report, err := app.Check(c.Data)
	if err != nil {
		return err
	}
	return writeReport(t, c.Output, c.Data, report)
}

// writeReport writes what a check of a directory looked at and found. Its error is what
// the program ends with: a directory that is not whole is a failure.
func writeReport(t terminal, output, directory string, report app.Report) error {
	if err := printReport(t, output, report); err != nil {
		return err
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%s is not whole: %d problems", directory, n)
	}
	return nil
}

func printReport(t terminal, output string, report app.Report) error {
	if output == "json" {
		return writeJSON(t.Out, report)
	}
	rows := [][]cell{}
	for _, row := range []struct {
		name string
		n    int64
	}{
		{"tables", int64(report.Tables)},
		{"commits", int64(report.Commits)},
		{"keys", report.Keys},
		{"messages", report.Messages},
		{"  waiting", report.Waiting},
		{"events", report.Events},
		{"dead letters", report.DeadLetters},
		{"runs", report.Runs},
		{"  failed", report.FailedRuns},
		{"problems", int64(len(report.Problems))},
	} {
		rows = append(rows, []cell{{text: row.name}, {text: strconv.FormatInt(row.n, 10)}})
	}
	if err := writeRows(&table{out: t.Out, columns: []column{{"CHECKED", 14}, {name: "NUMBER"}}}, rows); err != nil {
		return err
	}
	for _, problem := range report.Problems {
		if _, err := fmt.Fprintln(t.Out, problem); err != nil {
			return err
		}
	}
	return nil
}
