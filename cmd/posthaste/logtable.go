package main

import (
	"encoding/json"
	"io"
	"time"

	"posthaste"
)

// newLogTable returns a table of log entries.
func newLogTable(out io.Writer, coloured bool) *table {
	return &table{out, coloured, []column{
		{"TIME", len(tableTime)},
		{"STATE", len(posthaste.StateCancelRequested)},
		{"MESSAGE", 26},
		{name: "DESTINATION"},
	}, logRow}
}

// logRow shows a log entry.
func logRow(value json.RawMessage) ([]cell, error) {
	var entry struct {
		Time             int64           `json:"time"` // Unix ms
		State            posthaste.State `json:"state"`
		MessageID        string          `json:"messageId"`
		URL              string          `json:"url"`
		Error            string          `json:"error"`
		NextDeliveryTime int64           `json:"nextDeliveryTime"` // Unix ms
	}
	if err := json.Unmarshal(value, &entry); err != nil {
		return nil, err
	}
	end := entry.URL
	if entry.Error != "" {
		end += "  " + entry.Error
	}
	if entry.NextDeliveryTime != 0 {
		end += "  next " + time.UnixMilli(entry.NextDeliveryTime).Format(tableTime)
	}
	return []cell{at(entry.Time), inState(entry.State), {text: entry.MessageID}, {text: end}}, nil
}
