package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/client"
)

// logStatsCommand counts the log. Its filters are those of GET /v2/logs/stats.
type logStatsCommand struct {
	Bucket    string   `param:"bucket" env:"-" enum:"hour,day" default:"hour" help:"Period per row: hour or day."`
	FromDate  timeFlag `group:"filter" param:"fromDate" env:"-" placeholder:"TIME" help:"A time in the first hour or day. Default: 24h or 30d before the last."`
	ToDate    timeFlag `group:"filter" param:"toDate" env:"-" placeholder:"TIME" help:"A time in the last hour or day. Default: now."`
	Host      []string `group:"filter" param:"host" env:"-" sep:"none" placeholder:"HOST" help:"Messages to a host, with or without port. A filter given more than once matches any of its values."`
	Path      []string `group:"filter" param:"path" env:"-" sep:"none" placeholder:"PATH" help:"Messages to a path."`
	QueueName []string `group:"filter" param:"queueName" env:"-" sep:"none" placeholder:"NAME" help:"Messages sent through a queue."`
	Label     []string `group:"filter" param:"label" env:"-" sep:"none" placeholder:"LABEL" help:"Messages with a label."`
	oneOutput
	connection
}

// logCounts are what is shown of counts of the log.
type logCounts struct {
	Time    int64                   `json:"time"` // Unix ms
	Host    string                  `json:"host"`
	Path    string                  `json:"path"`
	Rest    bool                    `json:"rest"` // everything not listed by itself
	States  map[posthaste.State]int `json:"states"`
	Latency struct {
		P50 int64 `json:"p50"` // ms
		P99 int64 `json:"p99"` // ms
	} `json:"latency"`
}

func (c logCounts) in(state posthaste.State) cell { return number(c.States[state]) }

// latency returns how long attempts took, "" if there were none.
func (c logCounts) latency() string {
	if c.States[posthaste.StateDelivered]+c.States[posthaste.StateError] == 0 {
		return ""
	}
	ms := func(n int64) string { return briefly(time.Duration(n) * time.Millisecond) }
	return fmt.Sprintf("p50 %s, p99 %s", ms(c.Latency.P50), ms(c.Latency.P99))
}

// Run prints the counts, hour by hour or day by day, and the destinations with most errors.
func (c *logStatsCommand) Run(t terminal) error {
	return c.show(t, client.Request{Path: "/v2/logs/stats", Query: params(c)}, c.Output, printLogStats)
}

func printLogStats(t terminal, answer json.RawMessage) error {
	var found struct {
		Total   logCounts   `json:"total"`
		Buckets []logCounts `json:"buckets"`
		Paths   []logCounts `json:"paths"`
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	row := func(first cell, n logCounts) []cell {
		return []cell{first, n.in(posthaste.StateCreated), n.in(posthaste.StateDelivered), n.in(posthaste.StateError), n.in(posthaste.StateFailed), {text: n.latency()}}
	}
	var rows [][]cell
	for _, n := range found.Buckets {
		if len(n.States) > 0 { // most hours of a small server have nothing to say
			rows = append(rows, row(at(n.Time), n))
		}
	}
	rows = append(rows, row(cell{text: "total"}, found.Total))
	err := columns{{"FROM", ofTime}, {"CREATED", 8}, {"DELIVERED", 9}, {"ERRORS", 8}, {"FAILED", 6}, {name: "LATENCY"}}.writeRows(t.Out, rows)
	if err != nil || len(found.Paths) == 0 {
		return err
	}
	rows = nil
	for _, n := range found.Paths {
		destination := n.Host + n.Path
		switch {
		case n.Host == "":
			destination = "(other destinations)"
		case n.Rest:
			destination += " (other paths)"
		}
		rows = append(rows, []cell{n.in(posthaste.StateError), n.in(posthaste.StateFailed), n.in(posthaste.StateDelivered), {text: n.latency()}, {text: destination}})
	}
	if err := writeLine(t.Out, ""); err != nil {
		return err
	}
	return columns{{"ERRORS", 8}, {"FAILED", 8}, {"DELIVERED", 9}, {"LATENCY", 22}, {name: "DESTINATION"}}.writeRows(t.Out, rows)
}
