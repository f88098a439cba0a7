package main

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

// table writes values as lines of a table. Its columns have fixed widths: nothing is
// known of the values to come.
type table struct {
	out      io.Writer
	coloured bool
	columns  []column
	row      func(json.RawMessage) ([]cell, error) // a cell for each column
}

// column is a column of a table. The last one is as wide as what is in it.
type column struct {
	name  string
	width int // in characters
}

// cell is a text of a table, which may come from elsewhere.
type cell struct {
	text string
	colour
}

func (t *table) begin() error {
	names := make([]cell, len(t.columns))
	for i, c := range t.columns {
		names[i].text = c.name
	}
	return t.write(names)
}

func (t *table) print(value json.RawMessage) error {
	cells, err := t.row(value)
	if err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	return t.write(cells)
}

func (t *table) end() error { return nil }

func (t *table) write(cells []cell) error {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = shown(c.text)
		if i < len(cells)-1 {
			line[i] = fmt.Sprintf("%-*s", t.columns[i].width, line[i])
		}
		if t.coloured {
			line[i] = c.of(line[i])
		}
	}
	_, err := fmt.Fprintln(t.out, strings.TrimRight(strings.Join(line, "  "), " "))
	return err
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
