package cli

import (
	"strconv"

	"posthaste"
	"posthaste/internal/app"
)

// schemaCommand is about the version of a database's schema, which servers bring up to date.
type schemaCommand struct {
	Show schemaShowCommand `cmd:"" help:"Show a database's schema version, the versions that its servers support, and into how many partitions users are divided."`
}

// schemaShowCommand shows where the schema stands.
type schemaShowCommand struct {
	DatabaseURL []string `name:"database-url" sep:"none" placeholder:"URL" help:"PostgreSQL database of the servers, postgres://USER:PASSWORD@HOST:PORT/DATABASE; one of several."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *schemaShowCommand) Validate() error {
	switch databases := (&databaseURLs{c.DatabaseURL}); len(databases.urls()) {
	case 0:
		return posthaste.Invalidf("database-url is missing: give the database with --database-url URL")
	case 1:
		return databases.check()
	}
	return posthaste.Invalidf("database-url is given more than once, or names several databases: give one of them with --database-url URL")
}

// Run prints where the schema of a database stands.
func (c *schemaShowCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	at, err := app.ReadSchema(ctx, (&databaseURLs{c.DatabaseURL}).urls()[0])
	if err != nil {
		return err
	}
	if c.Output == "json" {
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
	rows = append(rows,
		[]cell{{text: "partitions"}, {text: strconv.Itoa(at.Partitions)}},
		[]cell{{text: "users with fewer"}, {text: strconv.Itoa(at.Undivided)}},
	)
	return columns{{"OF", 16}, {name: "VERSION, NUMBER"}}.writeRows(t.Out, rows)
}
