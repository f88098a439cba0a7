package main

import (
	"bufio"
	"net/url"

	"posthaste"
	"posthaste/internal/client"
)

// logsCommand shows the log of messages: what is there, or what is yet to come. Its
// filters are those of GET /v2/logs and have their names, but for the URL of a
// destination: --url names the server. Filters are not taken from the environment,
// where a forgotten one would hide entries.
type logsCommand struct {
	MessageID      []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Entries of a message. A filter given more than once matches any of its values."`
	State          []string `group:"filter" env:"-" sep:"none" placeholder:"STATE" help:"Entries in a state, such as FAILED, or IN_PROGRESS for ACTIVE, RETRY and ERROR."`
	Destination    []string `group:"filter" env:"-" sep:"none" placeholder:"URL" help:"Entries of messages to a URL."`
	TopicName      []string `group:"filter" env:"-" sep:"none" placeholder:"NAME" help:"Entries of messages sent through a URL group."`
	ScheduleID     []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Entries of messages created by a schedule."`
	QueueName      []string `group:"filter" env:"-" sep:"none" placeholder:"NAME" help:"Entries of messages sent through a queue."`
	Label          []string `group:"filter" env:"-" sep:"none" placeholder:"LABEL" help:"Entries of messages with a label."`
	Host           []string `group:"filter" env:"-" sep:"none" placeholder:"HOST" help:"Entries of messages to a host, with or without port."`
	Path           []string `group:"filter" env:"-" sep:"none" placeholder:"PATH" help:"Entries of messages to a path."`
	CallerIP       []string `group:"filter" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"Entries of messages published from an IP address."`
	FlowControlKey []string `group:"filter" env:"-" sep:"none" placeholder:"KEY" help:"Entries of messages with a flow-control key."`
	FromDate       moment   `group:"filter" env:"-" placeholder:"TIME" help:"Entries at or after a time: Unix milliseconds, 2006-01-02 15:04 (local time), 2006-01-02T15:04:05Z, or an age such as 15m or 2d."`
	ToDate         moment   `group:"filter" env:"-" placeholder:"TIME" help:"Entries at or before a time."`

	Count  *int   `env:"-" placeholder:"N" help:"Maximum number of entries (0 = all). Default: 100, or all with --follow or --output ndjson."`
	Order  string `env:"-" enum:",latestFirst,earliestFirst" default:"" placeholder:"ORDER" help:"Sort order: latestFirst or earliestFirst. Default: latestFirst, or earliestFirst with --follow."`
	Cursor string `env:"-" placeholder:"CURSOR" help:"Continue from a cursor of an earlier response."`
	Follow bool   `env:"-" help:"Show new entries as they are written, starting now or at --from-date, until interrupted."`
	listOutput
	connection
}

const (
	defaultLogCount = 100
	mostLogPage     = 1000 // entries that one answer has at most
)

// Validate returns a sentence about the first setting that is wrong.
func (c *logsCommand) Validate() error {
	switch {
	case c.Count != nil && *c.Count < 0:
		return posthaste.Invalidf("count %d is negative: give a number of entries, or 0 for all", *c.Count)
	case c.Follow && c.Order == "latestFirst":
		return posthaste.Invalidf("order latestFirst cannot be combined with --follow, which shows entries as they are written")
	case c.Follow && c.Output == "json":
		return posthaste.Invalidf("output json cannot be combined with --follow, which does not end: use ndjson")
	}
	return c.check()
}

// Run prints entries until there are no more, or no more are wanted.
func (c *logsCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := c.open(t)
	if err != nil {
		return err
	}
	request := client.Request{Path: "/v2/logs", Query: c.query()}
	if c.Follow {
		return printAll(t, c.newPrinter(), first(c.count(), server.Follow(ctx, request)))
	}
	from := &source{server: server, request: request, name: "events", count: c.count(), mostPage: mostLogPage}
	return from.print(ctx, t, c.Output, newLogTable)
}

// newPrinter returns what makes the printer of entries that are followed. Each is written
// at once: there is no telling when the next one comes.
func (c *logsCommand) newPrinter() func(*bufio.Writer, bool) printer {
	return func(out *bufio.Writer, coloured bool) printer {
		return promptPrinter{newPrinter(c.Output, "events", newLogTable, out, coloured), out}
	}
}

// query returns the parameters of the request.
func (c *logsCommand) query() url.Values {
	query := url.Values{}
	setAll(query, map[string][]string{
		"messageId": c.MessageID, "state": c.State, "url": c.Destination, "topicName": c.TopicName,
		"scheduleId": c.ScheduleID, "queueName": c.QueueName, "label": c.Label, "host": c.Host, "path": c.Path,
		"callerIp": c.CallerIP, "flowControlKey": c.FlowControlKey,
		"fromDate": c.FromDate.values(), "toDate": c.ToDate.values(),
	})
	setIf(query, "order", c.Order)
	setIf(query, "cursor", c.Cursor)
	c.leaveOutBodies(query)
	return query
}

// count returns after how many entries to end, 0 for never.
func (c *logsCommand) count() int {
	switch {
	case c.Count != nil:
		return *c.Count
	case c.Follow, c.Output == "ndjson": // which are for programs
		return 0
	default:
		return defaultLogCount
	}
}
