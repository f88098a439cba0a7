package main

import (
	"strconv"

	"posthaste"
	"posthaste/internal/app"
)

// schemaCommand is about the version of a database's schema. Servers bring it up to date;
// only a person takes it back.
type schemaCommand struct {
	Show schemaShowCommand `cmd:"" help:"Show which version the schema of a database has, and which versions programs know."`
	Down schemaDownCommand `cmd:"" help:"Take the schema of a database back, for an older program."`
}

// oneDatabase is the database that a command is about.
type oneDatabase struct {
	DatabaseURL string `name:"database-url" placeholder:"URL" help:"PostgreSQL of the servers, postgres://USER:PASSWORD@HOST:PORT/DATABASE."`
}

func (d *oneDatabase) check() error {
	if d.DatabaseURL == "" {
		return posthaste.Invalidf("database-url is missing: name the database with --database-url URL")
	}
	return checkDatabaseURL(d.DatabaseURL)
}

// schemaShowCommand shows where the schema stands.
type schemaShowCommand struct {
	oneDatabase
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *schemaShowCommand) Validate() error { return c.check() }

// Run prints where the schema stands.
func (c *schemaShowCommand) Run(t terminal) error { return showSchema(t, c.DatabaseURL, c.Output) }

// schemaDownCommand takes the schema back.
type schemaDownCommand struct {
	oneDatabase
	To int `env:"-" required:"" placeholder:"VERSION" help:"Version that the schema is to have: the one that the older program says it knows."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *schemaDownCommand) Validate() error {
	if c.To < 1 {
		return posthaste.Invalidf("to %d is no version of a schema that something is kept in: 1 or more is accepted", c.To)
	}
	return c.check()
}

// Run takes the schema back and prints where it stands then.
func (c *schemaDownCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	if err := app.RevertSchema(ctx, c.DatabaseURL, c.To); err != nil {
		return err
	}
	return showSchema(t, c.DatabaseURL, c.Output)
}

// showSchema prints where the schema of a database stands.
func showSchema(t terminal, url, output string) error {
	ctx, forget := untilSignal()
	defer forget()
	at, err := app.ReadSchema(ctx, url)
	if err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(t.Out, at)
	}
	rows := [][]cell{
		{{text: "schema"}, {text: strconv.Itoa(at.Version)}},
		{{text: "programs need"}, {text: strconv.Itoa(at.Needs)}},
		{{text: "this program"}, {text: strconv.Itoa(at.Known)}},
	}
	for _, n := range at.Nodes {
		rows = append(rows, []cell{{text: "node " + strconv.FormatInt(n.Node, 10)}, {text: strconv.Itoa(n.Known)}})
	}
	return writeRows(&table{out: t.Out, columns: []column{{"OF", 14}, {name: "VERSION"}}}, rows)
}
