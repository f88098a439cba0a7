package cli

import (
	"encoding/json"
	"fmt"
	"strconv"

	"posthaste/internal/client"
)

// statsCommand shows how much is kept of the user.
type statsCommand struct {
	Days bool `env:"-" help:"Also show the days of the log. JSON output always includes them."`
	oneOutput
	connection
}

// Run prints what is kept, kind by kind.
func (c *statsCommand) Run(t terminal) error {
	return c.show(t, client.Request{Path: "/v2/usage"}, c.Output, c.print)
}

// keptKind is how much is kept of a kind, or of a day of the log.
type keptKind struct {
	Day     string `json:"day"`
	Entries int64  `json:"entries"`
	Oldest  int64  `json:"oldest"` // Unix ms
	Bytes   int64  `json:"bytes"`
}

// kept is how much is kept of a user.
type kept struct {
	Log struct {
		keptKind
		Days []keptKind `json:"days"`
	} `json:"log"`
	DeadLetters keptKind `json:"deadLetters"`
	FailedRuns  keptKind `json:"failedRuns"`
	Runs        keptKind `json:"runs"`
}

func (c *statsCommand) print(t terminal, usage json.RawMessage) error {
	var kept kept
	if err := json.Unmarshal(usage, &kept); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	rows := [][]cell{keptRow("log", kept.Log.keptKind)}
	if c.Days {
		for _, day := range kept.Log.Days {
			rows = append(rows, keptRow("  "+day.Day, day))
		}
	}
	rows = append(rows,
		keptRow("dead letters", kept.DeadLetters),
		keptRow("failed runs", kept.FailedRuns),
		keptRow("runs", kept.Runs))
	return keptColumns.writeRows(t.Out, rows)
}

var keptColumns = columns{
	{"KIND", 12},
	{"ENTRIES", 12},
	{"OLDEST", ofTime},
	{name: "BYTES"},
}

func keptRow(name string, k keptKind) []cell {
	return []cell{{text: name}, {text: strconv.FormatInt(k.Entries, 10)}, at(k.Oldest), {text: roughly(k.Bytes)}}
}

// roughly writes a size as people read it: with one digit behind the point.
func roughly(bytes int64) string {
	const step = 1024
	if bytes < step {
		return fmt.Sprintf("%dB", bytes)
	}
	size, units := float64(bytes)/step, "KMGTPE"
	for size >= step-.05 { // which would be written 1024.0
		size, units = size/step, units[1:]
	}
	return fmt.Sprintf("%.1f%ciB", size, units[0])
}
