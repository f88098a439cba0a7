package main

import (
	"encoding/json"
	"io"

	"posthaste/internal/client"
)

// dlqCommand is about what failed for good: runs of workflows, and messages.
type dlqCommand struct {
	List    listEntries[failedRuns] `cmd:"" help:"List failed runs in the DLQ."`
	Show    showEntry[failedRuns]   `cmd:"" help:"Show why a run failed."`
	Restart restartFailedCommand    `cmd:"" help:"Restart failed runs from the beginning."`
	Resume  resumeFailedCommand     `cmd:"" help:"Restart failed runs from the step that failed."`
	Delete  deleteFailedCommand     `cmd:"" help:"Delete failed runs from the DLQ."`

	Messages deadLettersCommand `cmd:"" help:"List, show, retry and delete messages in the DLQ."`
}

// deadLettersCommand is about messages that failed for good.
type deadLettersCommand struct {
	List   listEntries[deadLetters] `cmd:"" help:"List messages in the DLQ."`
	Show   showEntry[deadLetters]   `cmd:"" help:"Show why a message failed."`
	Retry  retryDeadLettersCommand  `cmd:"" help:"Publish failed messages again."`
	Delete deleteDeadLettersCommand `cmd:"" help:"Delete messages from the DLQ."`
}

// dlq is one of the two DLQs. Its fields are the filters of its entries, as flags.
type dlq interface {
	path() string
	newTable(out io.Writer, coloured bool) *table
	print(t terminal, entry json.RawMessage) error
	tellOfOther(t terminal, server *client.Client) error // what the other DLQ holds
}

// listEntries lists the entries of a DLQ.
type listEntries[D dlq] struct {
	DLQ D `embed:""`
	listing
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *listEntries[D]) Validate() error {
	return firstError(c.listing.check(), c.connection.check())
}

// Run prints the entries.
func (c *listEntries[D]) Run(t terminal) error {
	server, err := c.open(t)
	if err != nil {
		return err
	}
	request := client.Request{Path: c.DLQ.path(), Query: c.withoutBodies(params(c))}
	if err := c.print(t, server, request, "messages", c.DLQ.newTable); err != nil || c.Output != "table" {
		return err
	}
	return c.DLQ.tellOfOther(t, server)
}

// tellOfOther says how to list the messages that failed for good, if there are any: who
// looks for one would not look for a second DLQ.
func (failedRuns) tellOfOther(t terminal, server *client.Client) error {
	return tellOfOther(t, server, "message", "posthaste dlq messages list", func(k kept) keptKind { return k.DeadLetters })
}

// tellOfOther says how to list the runs that failed, if there are any.
func (deadLetters) tellOfOther(t terminal, server *client.Client) error {
	return tellOfOther(t, server, "workflow run", "posthaste dlq list", func(k kept) keptKind { return k.FailedRuns })
}

func tellOfOther(t terminal, server *client.Client, thing, command string, in func(kept) keptKind) error {
	ctx, forget := untilSignal()
	defer forget()
	var found kept
	if err := server.Do(ctx, client.Request{Path: "/v2/usage"}, &found); err != nil {
		return err
	}
	if n := int(in(found).Entries); n > 0 {
		return writeLine(t.Err, "The DLQ also has %s. List them with: %s", counted(n, thing), command)
	}
	return nil
}

// showEntry shows one entry of a DLQ.
type showEntry[D dlq] struct {
	ID string `arg:"" help:"ID of the DLQ entry."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *showEntry[D]) Validate() error { return c.check() }

// Run prints the entry.
func (c *showEntry[D]) Run(t terminal) error {
	var d D
	return showOne(t, &c.connection, d.path(), c.ID, c.Output, d.print)
}

// selectedEntries are the entries of a DLQ that a command is about.
type selectedEntries[D dlq] struct {
	IDs []string `arg:"" optional:"" name:"id" help:"IDs of DLQ entries."`
	DLQ D        `embed:""`
	sweeping
}

// Validate returns a sentence about the first setting that is wrong.
func (s *selectedEntries[D]) Validate() error { return s.check(s.IDs, params(s.DLQ)) }

// request returns the request for a method and a path below the DLQ.
func (s *selectedEntries[D]) request(method, path string) client.Request {
	request := client.Request{Method: method, Path: s.DLQ.path() + path, Query: params(s.DLQ)}
	if len(s.IDs) > 0 {
		request.Body = map[string]any{"dlqIds": s.IDs}
	}
	return request
}
