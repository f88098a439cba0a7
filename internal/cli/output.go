package cli

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

	"golang.org/x/term"
)

// oneOutput is how a command writes a single value. Each that prints something has this
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

// list is how a list of JSON values is written.
type list struct {
	output string // table, json or ndjson
	name   string // of the values in a document
	table  table
	cursor func() string // that a document ends with, "" for none; nil: there is none
	prompt bool          // each value is written at once

	isEmpty bool // set by writeTo: a table without a row
}

// write writes the values. What came before an error is written too. A table of none is a sentence
// on Err.
func (l list) write(t terminal, values iter.Seq2[json.RawMessage, error]) error {
	out := bufio.NewWriter(t.Out)
	err := errors.Join(l.writeTo(out, lookOf(t.Out), values), out.Flush())
	if err == nil && l.isEmpty {
		return writeLine(t.Err, "Nothing found.")
	}
	return err
}

func (l *list) writeTo(out *bufio.Writer, look look, values iter.Seq2[json.RawMessage, error]) error {
	begun, comma := false, ""
	begin := func() error {
		if begun {
			return nil
		}
		begun = true
		return l.begin(out, look)
	}
	var err error
	if l.prompt || l.output == "json" { // somebody waits for the next line, or reads the document
		err = begin()
	}
	for value, failure := range values {
		if err = errors.Join(err, failure); err == nil {
			err = begin() // a refusal has no names of columns above it
		}
		if err != nil {
			break
		}
		switch l.output {
		case "json":
			_, err = fmt.Fprintf(out, "%s\n%s", comma, value)
			comma = ","
		case "ndjson":
			err = writeLine(out, "%s", value)
		default:
			err = l.table.write(out, look, value)
		}
		if err == nil && l.prompt {
			err = out.Flush()
		}
		if err != nil {
			break
		}
	}
	if l.isEmpty = err == nil && !begun && l.output == "table"; err == nil && !l.isEmpty {
		err = begin()
	}
	return errors.Join(err, l.end(out)) // a document can be read after an error too
}

func (l list) begin(out *bufio.Writer, look look) (err error) {
	switch l.output {
	case "json": // as the API does
		_, err = fmt.Fprintf(out, "{%q:[", l.name)
	case "table":
		err = l.table.columns.writeNames(out, look)
	}
	if err == nil && l.prompt {
		err = out.Flush()
	}
	return err
}

func (l list) end(out *bufio.Writer) error {
	if l.output != "json" {
		return nil
	}
	end := ""
	if l.cursor != nil && l.cursor() != "" {
		end = fmt.Sprintf(",%q:%q", "cursor", l.cursor())
	}
	return writeLine(out, "\n]%s}", end)
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

// hasColours reports whether colours are shown where w leads to: on a terminal, and
// unless the environment asks for none (https://no-color.org).
func hasColours(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd())) // /dev/null is a device, too
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
