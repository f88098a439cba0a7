package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"posthaste"
)

// tableTime is how tables show times: in this place, to the millisecond, with the offset
// from UTC. Filters take it as it is shown.
const tableTime = "2006-01-02 15:04:05.000-07:00"

// shortTime is how they show times where there is little room.
const shortTime = "01-02 15:04:05"

// look is how a table is written: in colours or not, and how wide.
type look struct {
	coloured bool
	width    int // in characters; 0: as wide as the texts are
}

// Tables that are narrower than wideEnough show short times, and a last column that would have
// less than roomyEnough takes a line of its own.
const (
	wideEnough  = 120
	roomyEnough = 24
)

// lookOf returns how tables are written to a place: as a terminal has it, or as the variable
// COLUMNS says, which watch sets. Programs read what is written to other places, so nothing is
// cut off there.
func lookOf(out io.Writer) look {
	width, _ := strconv.Atoi(os.Getenv("COLUMNS"))
	if file, isFile := out.(*os.File); isFile && isTerminal(out) {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil {
			width = columns
		}
	}
	return look{hasColours(out), max(width, 0)}
}

func (l look) isNarrow() bool { return l.width > 0 && l.width < wideEnough }

// cut returns the beginning of a text that fits into a width; 0 is for any.
func cut(text string, width int) string {
	runes := []rune(text)
	if width <= 0 || len(runes) <= width {
		return text
	}
	return string(runes[:width-1]) + "…"
}

// table is how values are shown as lines. Its columns have fixed widths: nothing is known of
// the next values.
type table struct {
	columns columns
	row     func(json.RawMessage) ([]cell, error) // a cell for each column
}

// tableOf returns a table whose rows are made of values of a type.
func tableOf[T any](columns columns, row func(T) []cell) table {
	return table{columns, func(value json.RawMessage) ([]cell, error) {
		var decoded T
		if err := json.Unmarshal(value, &decoded); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		return row(decoded), nil
	}}
}

// columns are the columns of a table. The last one is as wide as what is in it.
type columns []column

type column struct {
	name  string
	width int // in characters, or ofTime
}

// ofTime is the width of a column of times.
const ofTime = -1

// cell is a text of a table, which may come from elsewhere.
type cell struct {
	text string
	colour
	short string // takes its place in a narrow table, if there is one
	tail  string // follows the text of a last column; the text is cut before it
}

// fitted returns the text of a last column in a width, 0 for any.
func (c cell) fitted(text string, width int) string {
	const separator = "  "
	if c.tail == "" {
		return cut(text, width)
	}
	tail := shown(c.tail)
	if width > 0 && utf8.RuneCountInString(text+separator+tail) > width {
		text = cut(text, max(width-utf8.RuneCountInString(separator+tail), width/2))
	}
	return cut(text+separator+tail, width)
}

func (t table) write(out io.Writer, look look, value json.RawMessage) error {
	cells, err := t.row(value)
	if err != nil {
		return err
	}
	return t.columns.write(out, look, cells)
}

func (columns columns) writeNames(out io.Writer, look look) error {
	names := make([]cell, len(columns))
	for i, c := range columns {
		names[i].text = c.name
	}
	return columns.write(out, look.plain(), names)
}

// plain returns the look without colours.
func (l look) plain() look { return look{width: l.width} }

func (columns columns) write(out io.Writer, look look, cells []cell) error {
	line, used := "", 0
	ownLine := look.width > 0 && len(columns) > 1 && look.width-columns.fixed(look) < roomyEnough
	for i, c := range cells {
		text, width := shown(c.text), columns[i].widthIn(look)
		if look.isNarrow() && c.short != "" {
			text = c.short
		}
		switch {
		case i < len(cells)-1:
			text = fmt.Sprintf("%-*s", width, text)
		case ownLine:
			line = strings.TrimRight(line, " ") + "\n  "
			text = c.fitted(text, look.width-len("  "))
		case look.width > 0:
			text = c.fitted(text, max(look.width-used, 1))
		default:
			text = c.fitted(text, 0)
		}
		used += utf8.RuneCountInString(text) + len("  ")
		if look.coloured {
			text = c.of(text)
		}
		line += text + "  "
	}
	return writeLine(out, "%s", strings.TrimRight(line, " \n"))
}

// fixed returns how much room all columns but the last take.
func (columns columns) fixed(look look) (width int) {
	for _, c := range columns[:len(columns)-1] {
		width += c.widthIn(look) + len("  ")
	}
	return width
}

// widthIn returns how wide the column is.
func (c column) widthIn(look look) int {
	switch {
	case c.width != ofTime:
		return c.width
	case look.isNarrow():
		return len(shortTime)
	default:
		return len(tableTime)
	}
}

// writeRows writes a table whose rows are all known.
func (columns columns) writeRows(out io.Writer, rows [][]cell) error {
	look := lookOf(out)
	if err := columns.writeNames(out, look); err != nil {
		return err
	}
	return columns.writeBody(out, look, rows)
}

func (columns columns) writeBody(out io.Writer, look look, rows [][]cell) error {
	for _, row := range rows {
		if err := columns.write(out, look, row); err != nil {
			return err
		}
	}
	return nil
}

// at returns the cell of a time in Unix milliseconds, 0 for none.
func at(ms int64) cell {
	if ms == 0 {
		return cell{}
	}
	moment := time.UnixMilli(ms)
	return cell{text: moment.Format(tableTime), short: moment.Format(shortTime)}
}

// stateColours are the colours of states; those that are not named are plain.
var stateColours = map[string]colour{
	string(posthaste.StateActive):          busy,
	string(posthaste.StateRetry):           waiting,
	string(posthaste.StateError):           bad,
	string(posthaste.StateDelivered):       good,
	string(posthaste.StateFailed):          bad,
	string(posthaste.StateCancelRequested): faint,
	string(posthaste.StateCancelled):       faint,

	string(posthaste.RunStarted):   busy,
	string(posthaste.RunSuccess):   good,
	string(posthaste.RunFailed):    bad,
	string(posthaste.RunCancelled): faint,

	string(posthaste.StepProgress):  busy,
	string(posthaste.StepRetry):     waiting,
	string(posthaste.StepSuccess):   good,
	string(posthaste.StepFailed):    bad,
	string(posthaste.StepCancelled): faint,
}

// inState returns the cell of a state of anything.
func inState[S ~string](state S) cell {
	return cell{text: string(state), colour: stateColours[string(state)]}
}
