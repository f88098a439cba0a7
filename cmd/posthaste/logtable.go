package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"posthaste"
)

// logTable writes log entries as lines of a table. Its columns have fixed widths:
// nothing is known of the entries to come.
type logTable struct {
	out      io.Writer
	coloured bool
}

// Columns of a logTable: the time of the day, to the millisecond, in this place; the
// longest state is CANCEL_REQUESTED; the id of a message has 26 characters.
const (
	tableTime = "2006-01-02 15:04:05.000"
	tableLine = "%-23s  %s  %-26s  %s\n"
	tableWide = 16 // of a state
)

// shownEntry is what is shown of a log entry.
type shownEntry struct {
	Time             int64           `json:"time"` // Unix ms
	State            posthaste.State `json:"state"`
	MessageID        string          `json:"messageId"`
	URL              string          `json:"url"`
	Error            string          `json:"error"`
	NextDeliveryTime int64           `json:"nextDeliveryTime"` // Unix ms
}

func (t *logTable) begin() error {
	_, err := fmt.Fprintf(t.out, tableLine, "TIME", t.state("STATE"), "MESSAGE", "DESTINATION")
	return err
}

func (t *logTable) print(value json.RawMessage) error {
	var entry shownEntry
	if err := json.Unmarshal(value, &entry); err != nil {
		return fmt.Errorf("read a log entry: %w", err)
	}
	at := time.UnixMilli(entry.Time).Format(tableTime)
	_, err := fmt.Fprintf(t.out, tableLine, at, t.state(entry.State), shown(entry.MessageID), shown(entry.URL)+t.detail(entry))
	return err
}

func (t *logTable) end() error { return nil }

// state returns a state in its colour, as wide as the widest.
func (t *logTable) state(state posthaste.State) string {
	text := fmt.Sprintf("%-*s", tableWide, shown(string(state)))
	if !t.coloured {
		return text
	}
	return stateColours[state].of(text)
}

// stateColours are the colours of states; those that are not named are plain.
var stateColours = map[posthaste.State]colour{
	posthaste.StateActive:          busy,
	posthaste.StateRetry:           waiting,
	posthaste.StateError:           bad,
	posthaste.StateDelivered:       good,
	posthaste.StateFailed:          bad,
	posthaste.StateCancelRequested: faint,
	posthaste.StateCancelled:       faint,
}

// detail returns what went wrong and when the next attempt is, if that is so.
func (t *logTable) detail(entry shownEntry) (text string) {
	if entry.Error != "" {
		text += "  " + shown(entry.Error)
	}
	if entry.NextDeliveryTime != 0 {
		text += "  next " + time.UnixMilli(entry.NextDeliveryTime).Format(tableTime)
	}
	return text
}
