package main

import (
	"bufio"
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
}

func (l *listing) check() error {
	if l.Count < 0 {
		return posthaste.Invalidf("count %d is negative: give a number, or 0 for all", l.Count)
	}
	return nil
}

// print writes a list that the server has, page by page, with its values under a name
// in each page.
func (l *listing) print(t terminal, server *client.Client, request client.Request, name string, newTable func(io.Writer, bool) *table) error {
	ctx, forget := untilSignal()
	defer forget()
	const mostPage = 100 // values that one answer has
	from := &source{server: server, request: request, name: name, count: l.Count, mostPage: mostPage}
	return from.print(ctx, t, l.Output, newTable)
}

// source is a list that the server has, from which a number of values is read.
type source struct {
	server   *client.Client
	request  client.Request
	name     string // of the values in each page
	count    int    // of values, 0 for all
	mostPage int    // values that the server puts into one page

	cursor string // where a read that stopped at the count goes on, "" if it read all
}

// print writes the values. When there are more than were asked for it says how to go on:
// in a document, or beside a table.
func (s *source) print(ctx context.Context, t terminal, output string, newTable func(io.Writer, bool) *table) error {
	err := printAll(t, func(out *bufio.Writer, coloured bool) printer {
		if output == "json" {
			return &documentPrinter{out: out, name: s.name, cursor: func() string { return s.cursor }}
		}
		return newPrinter(output, s.name, newTable, out, coloured)
	}, s.values(ctx))
	if err == nil && output == "table" && s.cursor != "" {
		err = writeLine(t.Err, "Showing the first %d. Use --count 0 for all, or --cursor %s for the next ones.", s.count, s.cursor)
	}
	return err
}

// values yields the values. Each page has as many as are still wanted at most, so that the
// cursor of the last one leads to the first value that was not read.
func (s *source) values(ctx context.Context) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		request, left := s.request, s.count
		for {
			if left > 0 && left < s.mostPage {
				request = request.With("count", strconv.Itoa(left))
			}
			page, err := s.server.Page(ctx, request)
			if err != nil {
				yield(nil, brokenOff(err, request))
				return
			}
			read, err := yieldPage(page, s.name, left, yield)
			if err != nil {
				yield(nil, err)
			}
			if err != nil || read < 0 || page.Cursor == "" {
				return
			}
			if left -= read; s.count > 0 && left == 0 {
				s.cursor = page.Cursor
				return
			}
			if request = request.With("cursor", page.Cursor); ctx.Err() != nil {
				yield(nil, brokenOff(client.ErrInterrupted, request))
				return
			}
		}
	}
}

// brokenOff says of an error with which cursor the command goes on.
func brokenOff(err error, request client.Request) error {
	cursor := request.Query.Get("cursor")
	if cursor == "" {
		return err
	}
	return fmt.Errorf("the list is incomplete, use --cursor %s to continue: %w", cursor, err)
}

// yieldPage yields the values of a page, up to a limit unless that is 0. It returns how many
// there were, or -1 if no more are wanted.
func yieldPage(page client.Page, name string, limit int, yield func(json.RawMessage, error) bool) (int, error) {
	values, err := listIn(page.Body, name)
	if err != nil {
		return 0, err
	}
	if limit > 0 && len(values) > limit {
		values = values[:limit]
	}
	for _, value := range values {
		if !yield(value, nil) {
			return -1, nil
		}
	}
	return len(values), nil
}

// values yields the values under a name in the pages of a list.
func values(pages iter.Seq2[client.Page, error], name string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for page, err := range pages {
			var values []json.RawMessage
			if err == nil {
				values, err = listIn(page.Body, name)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, value := range values {
				if !yield(value, nil) {
					return
				}
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
