package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"strings"
	"unicode"
)

// oneOutput is how a command writes what is one thing. Each that tells something has this
// or listOutput.
type oneOutput struct {
	Output string `env:"-" default:"table" enum:"table,json" help:"Output format: table or json."`
}

// listOutput is how a command writes what is a list.
type listOutput struct {
	Output string `env:"-" default:"table" enum:"table,json,ndjson" help:"Output format: table, json (one document) or ndjson (one JSON value per line)."`
}

// withoutBodies asks for a list without bodies if it becomes a table, which has none.
func (o *listOutput) withoutBodies(query url.Values) url.Values {
	if o.Output == "table" {
		query.Set("trimBody", noBodies)
	}
	return query
}

// noBodies is the trimBody that leaves out the bodies of messages and answers.
const noBodies = "-1"

// printer writes a list of JSON values, one after the other.
type printer interface {
	begin() error
	print(value json.RawMessage) error
	end() error
}

// newPrinter returns the printer of an output: table, json or ndjson. A document has
// its values under a name.
func newPrinter(output, name string, newTable func(io.Writer, bool) *table, out io.Writer, coloured bool) printer {
	switch output {
	case "json":
		return &documentPrinter{out: out, name: name}
	case "ndjson":
		return linePrinter{out}
	default:
		return newTable(out, coloured)
	}
}

// printAll writes all values. What came before an error is written, too.
func printAll(t terminal, newPrinter func(*bufio.Writer, bool) printer, values iter.Seq2[json.RawMessage, error]) error {
	out := bufio.NewWriter(t.Out)
	return errors.Join(printEach(newPrinter(out, hasColours(t.Out)), values), out.Flush())
}

func printEach(p printer, values iter.Seq2[json.RawMessage, error]) error {
	if err := p.begin(); err != nil {
		return err
	}
	for value, err := range values {
		if err == nil {
			err = p.print(value)
		}
		if err != nil {
			return errors.Join(err, p.end()) // a document is one that can be read
		}
	}
	return p.end()
}

// first yields the first n values, or all if n is 0.
func first(n int, values iter.Seq2[json.RawMessage, error]) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		left := n
		for value, err := range values {
			if left--; !yield(value, err) || left == 0 {
				return
			}
		}
	}
}

// promptPrinter is a printer whose values are seen at once.
type promptPrinter struct {
	printer
	out *bufio.Writer
}

func (p promptPrinter) begin() error { return errors.Join(p.printer.begin(), p.out.Flush()) }

func (p promptPrinter) print(value json.RawMessage) error {
	if err := p.printer.print(value); err != nil {
		return err
	}
	return p.out.Flush()
}

// linePrinter writes each value in a line of its own.
type linePrinter struct{ out io.Writer }

func (linePrinter) begin() error { return nil }
func (linePrinter) end() error   { return nil }

func (p linePrinter) print(value json.RawMessage) error {
	_, err := fmt.Fprintf(p.out, "%s\n", value)
	return err
}

// documentPrinter writes one document, as the API does: an object that has the
// values under a name, and the cursor if there are more.
type documentPrinter struct {
	out    io.Writer
	name   string
	cursor func() string // nil: there are never more
	comma  string        // before the next value
}

func (p *documentPrinter) begin() error {
	_, err := fmt.Fprintf(p.out, "{%q:[", p.name)
	return err
}

func (p *documentPrinter) print(value json.RawMessage) error {
	_, err := fmt.Fprintf(p.out, "%s\n%s", p.comma, value)
	p.comma = ","
	return err
}

func (p *documentPrinter) end() error {
	end := ""
	if p.cursor != nil && p.cursor() != "" {
		end = fmt.Sprintf(",%q:%q", "cursor", p.cursor())
	}
	_, err := fmt.Fprintf(p.out, "\n]%s}\n", end)
	return err
}

// hasColours reports whether colours are shown where w leads to: on a terminal, and
// unless the environment asks for none (https://no-color.org).
func hasColours(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colour is what a terminal writes in.
type colour string

// The colours, by what they are used for.
const (
	plain   colour = ""
	good    colour = "\x1b[32m" // green
	bad     colour = "\x1b[31m" // red
	waiting colour = "\x1b[33m" // yellow
	busy    colour = "\x1b[36m" // cyan
	faint   colour = "\x1b[2m"
	normal         = "\x1b[0m"
)

// of writes a text in the colour.
func (c colour) of(text string) string {
	if c == plain {
		return text
	}
	return string(c) + text + normal
}

// shown returns a text from elsewhere as a terminal may have it: without characters
// that move the cursor, or do worse.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
