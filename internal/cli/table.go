package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"posthaste"
)

// tableTime is how tables show times: in this place, to the millisecond, with the offset
// from UTC. Filters take it as it is shown.
const tableTime = "2006-01-02 15:04:05.000-07:00"

// table is how values are shown as lines. Its columns have fixed widths: nothing is known of
// the values to come.
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
	width int // in characters
}

// cell is a text of a table, which may come from elsewhere.
type cell struct {
	text string
	colour
}

func (t table) write(out io.Writer, coloured bool, value json.RawMessage) error {
	cells, err := t.row(value)
	if err != nil {
		return err
	}
	return t.columns.write(out, coloured, cells)
}

func (columns columns) writeNames(out io.Writer) error {
	names := make([]cell, len(columns))
	for i, c := range columns {
		names[i].text = c.name
	}
	return columns.write(out, false, names)
}

func (columns columns) write(out io.Writer, coloured bool, cells []cell) error {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = shown(c.text)
		if i < len(cells)-1 {
			line[i] = fmt.Sprintf("%-*s", columns[i].width, line[i])
		}
		if coloured {
			line[i] = c.of(line[i])
		}
	}
	return writeLine(out, "%s", strings.TrimRight(strings.Join(line, "  "), " "))
}

// writeRows writes a table whose rows are all known.
func (columns columns) writeRows(out io.Writer, rows [][]cell) error {
	if err := columns.writeNames(out); err != nil {
		return err
	}
	for _, row := range rows {
		if err := columns.write(out, hasColours(out), row); err != nil {
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
	return cell{text: time.UnixMilli(ms).Format(tableTime)}
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
func inState[S ~string](state S) cell { return cell{string(state), stateColours[string(state)]} }
