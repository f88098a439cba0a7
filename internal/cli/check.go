package cli

import (
	"fmt"
	"strconv"

	"posthaste"
	"posthaste/internal/app"
)

// checkCommand looks for damage in a data directory or a backup, or in a database.
type checkCommand struct {
	Data        string   `env:"-" placeholder:"DIR" help:"Data directory or backup to check. No server may have it open. It is not changed."`
	DatabaseURL []string `name:"database-url" sep:"none" placeholder:"URL" help:"PostgreSQL database to check instead, postgres://USER:PASSWORD@HOST:PORT/DATABASE. Servers may keep using it; if it is one of several, give all of them, and stop the servers. It is not changed."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *checkCommand) Validate() error {
	databases := databaseURLs{c.DatabaseURL}
	switch {
	case c.Data == "" && databases.none():
		return posthaste.Invalidf("data is missing: give a directory with --data DIR, or a database with --database-url URL")
	case c.Data != "" && !databases.none():
		return posthaste.Invalidf("data %q and database-url are both given: only one can be checked at a time, so leave one out", c.Data)
	case c.Data != "":
		return nil
	}
	return databases.check()
}

// Run checks the place, and fails if it finds a problem.
func (c *checkCommand) Run(t terminal) error {
	if c.Data != "" {
		report, err := app.Check(c.Data)
		if err != nil {
			return err
		}
		return writeReport(t, c.Output, c.Data, report)
	}
	ctx, forget := untilSignal()
	defer forget()
	databases := databaseURLs{c.DatabaseURL}
	report, err := app.CheckDatabase(ctx, databases.urls()...)
	if err != nil {
		return err
	}
	return writeChecked(t, c.Output, "the database", report, report.Checked, lookedAt{"rows", report.Rows})
}

// writeReport writes what a check of a directory looked at and found.
func writeReport(t terminal, output, directory string, report app.Report) error {
	return writeChecked(t, output, directory, report, report.Checked,
		lookedAt{"tables", int64(report.Tables)}, lookedAt{"commits", int64(report.Commits)}, lookedAt{"keys", report.Keys})
}

// lookedAt is how many of something a check has read.
type lookedAt struct {
	name string
	n    int64
}

// writeChecked writes a report: as it is, or as a table of what its place alone has, of
// what every one has, and of problems. Its error is what the program ends with: a place
// that is not whole is a failure.
func writeChecked(t terminal, output, place string, report any, checked app.Checked, own ...lookedAt) error {
	write := func() error { return printChecked(t, checked, own) }
	if output == "json" {
		write = func() error { return writeJSON(t.Out, report) }
	}
	if err := write(); err != nil {
		return err
	}
	if n := len(checked.Problems); n > 0 {
		return fmt.Errorf("%s is damaged: %d problems", place, n)
	}
	return nil
}

func printChecked(t terminal, checked app.Checked, own []lookedAt) error {
	rows := [][]cell{}
	for _, row := range append(own, []lookedAt{
		{"messages", checked.Messages},
		{"  waiting", checked.Waiting},
		{"events", checked.Events},
		{"dead letters", checked.DeadLetters},
		{"runs", checked.Runs},
		{"  failed", checked.FailedRuns},
		{"problems", int64(len(checked.Problems))},
	}...) {
		rows = append(rows, []cell{{text: row.name}, {text: strconv.FormatInt(row.n, 10)}})
	}
	if err := (columns{{"CHECKED", 14}, {name: "NUMBER"}}).writeRows(t.Out, rows); err != nil {
		return err
	}
	for _, problem := range checked.Problems {
		if _, err := fmt.Fprintln(t.Out, problem); err != nil {
			return err
		}
	}
	return nil
}
