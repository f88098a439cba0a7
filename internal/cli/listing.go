package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"

	"posthaste"
	"posthaste/internal/client"
)

// listing is how much of a list is shown, and how.
type listing struct {
	Count  int    `env:"-" default:"100" placeholder:"N" help:"Maximum number of results (0 = all)."`
	Order  string `param:"order" env:"-" enum:",latestFirst,earliestFirst" default:"" placeholder:"ORDER" help:"Sort order: latestFirst (default) or earliestFirst."`
	Cursor string `param:"cursor" env:"-" placeholder:"CURSOR" help:"Continue from a cursor of an earlier response."`
	listOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (l *listing) Validate() error {
	if l.Count < 0 {
		return posthaste.Invalidf("count %d is negative: give a number, or 0 for all", l.Count)
	}
	return l.connection.Validate()
}

// print writes a list that the server has, page by page.
func (l *listing) print(t terminal, request client.Request, name string, table table) error {
	return l.call(t, func(ctx context.Context, server *client.Client) error {
		const mostPage = 100 // values that one answer has
		from := &source{server: server, request: request, name: name, count: l.Count, mostPage: mostPage}
		return from.print(ctx, t, l.Output, table)
	})
}

// source is a list that the server has, from which a number of values is read.
type source struct {
	server   *client.Client
	request  client.Request
	name     string // of the values in each page
	count    int    // of values, 0 for all
	mostPage int    // values that the server puts into one page

	at   string // the cursor of the page that is read
	next string // the cursor after a read that stopped at the count, "" if it read all
}

// print writes the values. When there are more than were asked for, or it cannot continue, it
// says with which cursor another command continues.
func (s *source) print(ctx context.Context, t terminal, output string, table table) error {
	err := list{output: output, name: s.name, table: table, cursor: func() string { return s.next }}.write(t, s.values(ctx))
	switch {
	case err != nil && s.at != "":
		return fmt.Errorf("the list is incomplete, use --cursor %s to continue: %w", s.at, err)
	case err == nil && output == "table" && s.next != "":
		return writeLine(t.Err, "Showing the first %d. Use --count 0 for all, or --cursor %s for the next ones.", s.count, s.next)
	}
	return err
}

// values yields the values. No page has more than are still wanted, so that the cursor of the
// last one leads to the first value that was not read.
func (s *source) values(ctx context.Context) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		request, left := s.request, s.count
		for {
			if left > 0 && left < s.mostPage {
				request = request.With("count", strconv.Itoa(left))
			}
			page, err := s.server.Page(ctx, request)
			var values []json.RawMessage
			if err == nil {
				values, err = listIn(page.Body, s.name)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if s.count > 0 {
				values = values[:min(left, len(values))]
			}
			for _, value := range values {
				if !yield(value, nil) {
					return
				}
			}
			if left -= len(values); page.Cursor == "" || s.count > 0 && left == 0 {
				s.next = page.Cursor
				return
			}
			s.at, request = page.Cursor, request.With("cursor", page.Cursor)
			if ctx.Err() != nil {
				yield(nil, client.ErrInterrupted)
				return
			}
		}
	}
}

// listIn returns the values that a page has under a name, none if it has no such list.
func listIn(page json.RawMessage, name string) (values []json.RawMessage, err error) {
	var lists map[string]json.RawMessage
	if err := json.Unmarshal(page, &lists); err != nil || lists[name] == nil {
		return nil, err
	}
	err = json.Unmarshal(lists[name], &values)
	return values, err
}

// field is a named value of one thing.
type field struct{ name, value string }

// fieldsOf returns a function that prints a value of a type by its fields.
func fieldsOf[T any](fields func(T) []field) func(terminal, json.RawMessage) error {
	return func(t terminal, value json.RawMessage) error {
		var decoded T
		if err := json.Unmarshal(value, &decoded); err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
		return printFields(t.Out, fields(decoded))
	}
}

// printFields writes the fields that have a value, a line for each.
func printFields(out io.Writer, fields []field) error {
	for _, f := range fields {
		if f.value == "" {
			continue
		}
		if err := writeLine(out, "%-12s  %s", f.name, shown(f.value)); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes one thing as a JSON document.
func writeJSON(out io.Writer, thing any) error {
	text, err := json.Marshal(thing)
	if err != nil {
		return fmt.Errorf("encode the response: %w", err)
	}
	return writeLine(out, "%s", text)
}

// writeResult writes what a command has done: as JSON, or as a line.
func writeResult(t terminal, output string, thing any, format string, args ...any) error {
	if output == "json" {
		return writeJSON(t.Out, thing)
	}
	return writeLine(t.Out, format, args...)
}

func writeLine(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(out, format+"\n", args...)
	return err
}

// counted returns a number of things in words.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
