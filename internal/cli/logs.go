package cli

import (
	"context"
	"strings"

	"posthaste"
	"posthaste/internal/client"
)

// logsCommand shows the log of messages: what is there, or what follows. Its
// filters are those of GET /v2/logs.
type logsCommand struct {
	logFilters `kong:"set='things=Entries of messages',set='made=Entries of messages published',set='timed=Entries'"`
	State      []string `group:"filter" param:"state" env:"-" sep:"none" placeholder:"STATE" help:"Entries in a state, such as FAILED, or IN_PROGRESS for ACTIVE, RETRY and ERROR."`

	ResponseStatus []string `group:"filter" param:"responseStatus" env:"-" sep:"none" placeholder:"STATUS" help:"Entries of attempts whose response had a status, such as 404 or 5xx, or 0 for none."`
	Method         []string `group:"filter" param:"method" env:"-" sep:"none" placeholder:"METHOD" help:"Entries of messages that are sent with an HTTP method."`

	ByMessage bool   `env:"-" help:"Group changes by message, from the first to the last. Default with --message-id in a table."`
	Count     *int   `env:"-" placeholder:"N" help:"Maximum number of entries (0 = all). Default: 100, or all with --follow or --output ndjson."`
	Order     string `param:"order" env:"-" enum:",latestFirst,earliestFirst" default:"" placeholder:"ORDER" help:"Sort order: latestFirst or earliestFirst. Default: latestFirst, or earliestFirst with --follow."`
	Cursor    string `param:"cursor" env:"-" placeholder:"CURSOR" help:"Continue from a cursor of an earlier response."`
	Follow    bool   `env:"-" help:"Show new entries as they are written, starting now or at --from-date, until interrupted."`
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
	case c.ByMessage && (c.Follow || c.Output != "table" || c.Order != "" || c.Cursor != ""):
		return posthaste.Invalidf("by-message cannot be combined with --follow, --output, --order or --cursor: it is a table of all changes of a message")
	case c.Follow && c.Order == "latestFirst":
		return posthaste.Invalidf("order latestFirst cannot be combined with --follow, which shows entries as they are written")
	case c.Follow && c.Output == "json":
		return posthaste.Invalidf("output json cannot be combined with --follow, which does not end: use ndjson")
	}
	for _, state := range c.State {
		if _, known := posthaste.ParseState(state); !known && !strings.EqualFold(state, inProgress) {
			return unknownState(state)
		}
	}
	return c.connection.Validate()
}

// inProgress is the word of the API for several states.
const inProgress = "IN_PROGRESS"

// Run prints entries until there are no more, or no more are wanted.
func (c *logsCommand) Run(t terminal) error {
	request := client.Request{Path: "/v2/logs", Query: c.withoutBodies(params(c))}
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		if c.ByMessage || c.isOneMessage() {
			return c.tell(ctx, t, server, request)
		}
		if c.Follow {
			followed := list{output: c.Output, table: logTable, prompt: true}
			return followed.write(t, first(c.count(), server.Follow(ctx, request)))
		}
		from := &source{server: server, request: request, name: "events", count: c.count(), mostPage: mostLogPage}
		return from.print(ctx, t, c.Output, logTable)
	})
}

// isOneMessage reports whether the log of one message is wanted, as people read it.
func (c *logsCommand) isOneMessage() bool {
	return len(c.MessageID) == 1 && c.Output == "table" && !c.Follow && len(c.State) == 0 && c.Order == "" && c.Cursor == "" && c.Count == nil
}

// tell prints the stories of messages, those that changed last first.
func (c *logsCommand) tell(ctx context.Context, t terminal, server *client.Client, request client.Request) error {
	stories, err := tellStories(ctx, server, request.Query, nil, c.count())
	if err != nil {
		return err
	}
	if len(stories) == 0 {
		return writeLine(t.Err, "Nothing found.")
	}
	for _, s := range stories {
		if err := s.write(t); err != nil {
			return err
		}
	}
	return nil
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

// logTable shows log entries.
var logTable = tableOf(columns{
	{"TIME", ofTime},
	{"STATE", len(posthaste.StateCancelRequested)},
	{"MESSAGE", 26},
	{name: "DESTINATION"},
}, func(entry logEntry) []cell {
	return []cell{at(entry.Time), inState(entry.State), {text: entry.MessageID}, {text: entry.URL, tail: entry.what()}}
})
