package cli

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/telemetry"
)

// copyCommand moves everything from a directory into a database, or back.
type copyCommand struct {
	From []string `sep:"none" placeholder:"DIR|URL" help:"Source: data directory of a server, or postgres://USER:PASSWORD@HOST:PORT/DATABASE. No server may be using it. It is not changed."`
	To   []string `sep:"none" placeholder:"DIR|URL" help:"Destination: a new directory, or an empty database. Given more than once, like --from: several databases that divide the data of each user, in their order."`

	partitionsSetting
	oneOutput
	LogLevel level `default:"warn" help:"Minimum log level: debug, info, warn or error."`
}

// placeOf takes apart the URLs of several databases, like those of a server.
func placeOf(values []string) app.Place {
	together := databaseURLs{values}
	if urls := together.urls(); len(urls) > 0 && app.Place(urls).IsDatabase() {
		return urls
	}
	return values
}

// Validate returns a sentence about the first setting that is wrong.
func (c *copyCommand) Validate() error {
	from, to := placeOf(c.From), placeOf(c.To)
	for _, place := range []struct {
		name   string
		values []string
	}{{"from", from}, {"to", to}} {
		if strings.Join(place.values, "") == "" {
			return posthaste.Invalidf("%s is missing: give the data directory of a server, or the URL of a PostgreSQL database", place.name)
		}
		if len(place.values) > 1 && slices.ContainsFunc(place.values, func(one string) bool { return !app.Place{one}.IsDatabase() }) {
			return posthaste.Invalidf("%s is given %d times, but not all are databases: one directory is accepted, or the URLs of PostgreSQL databases", place.name, len(place.values))
		}
	}
	for _, place := range []app.Place{from, to} {
		if place.IsDatabase() {
			if err := (&databaseURLs{place}).check(); err != nil {
				return err
			}
		}
	}
	both := slices.Concat(from, to)
	switch distinct := len(slices.Compact(slices.Sorted(slices.Values(both)))); {
	case len(both) == 2 && distinct == 1:
		return posthaste.Invalidf("from and to are the same place: there is nothing to copy")
	case distinct < len(both):
		return posthaste.Invalidf("from and to name a place twice: give each once")
	}
	if !to.IsDatabase() {
		return c.needsDatabase()
	}
	return c.partitionsSetting.check()
}

// Run copies, compares both places, and prints how much was copied.
func (c *copyCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	logger := telemetry.NewLogger(t.Err, slog.Level(c.LogLevel), telemetry.FormatText)
	bar := newBar(t.Err, unknownTotal, "items")
	copied, err := app.Copy(ctx, placeOf(c.From), placeOf(c.To), c.Partitions, logger, func(so app.Copied) {
		_ = bar.Set(so.Total()) // of no interest
	})
	_ = bar.Finish()
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(t.Out, countsOf(copied))
	}
	var table strings.Builder
	copied.Each(func(kind string, count int) { fmt.Fprintf(&table, "%10d %s\n", count, kind) })
	fmt.Fprintf(&table, "%10d items copied; source and destination match\n", copied.Total())
	_, err = io.WriteString(t.Out, table.String())
	return err
}

// countsOf returns how many items of each kind were copied, by names as JSON has them.
func countsOf(copied app.Copied) map[string]int {
	counts := map[string]int{"total": copied.Total()}
	copied.Each(func(kind string, count int) { counts[member(kind)] = count })
	return counts
}

// member returns what things are called as the name of a member of an object: log
// entries as logEntries.
func member(things string) string {
	words := strings.FieldsFunc(things, func(r rune) bool { return r == ' ' || r == '-' })
	for i, word := range words {
		words[i] = strings.ToLower(word)
		if i > 0 {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
