package cli

import (
	"context"
	"encoding/json"
	"net/url"

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
type dlq interface{ dlq() dlqKind }

// dlqKind is where a DLQ is, and how its entries are shown.
type dlqKind struct {
	path  string
	table table
	print func(t terminal, entry json.RawMessage) error

	// Who looks for an entry would not look for a second DLQ.
	other     string // a thing in the other DLQ
	listOther string // the command that lists them
	inOther   func(kept) keptKind
}

// listEntries lists the entries of a DLQ.
type listEntries[D dlq] struct {
	DLQ D `embed:""`
	listing
}

// Run prints the entries, and on Err how to list those of the other DLQ if there are any.
func (c *listEntries[D]) Run(t terminal) error {
	kind := c.DLQ.dlq()
	request := client.Request{Path: kind.path, Query: c.withoutBodies(params(c))}
	if err := c.print(t, request, "messages", kind.table); err != nil || c.Output != "table" {
		return err
	}
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		var found kept
		if err := server.Do(ctx, client.Request{Path: "/v2/usage"}, &found); err != nil {
			return err
		}
		if n := int(kind.inOther(found).Entries); n > 0 {
			return writeLine(t.Err, "The DLQ also has %s. List them with: %s", counted(n, kind.other), kind.listOther)
		}
		return nil
	})
}

// showEntry shows one entry of a DLQ.
type showEntry[D dlq] struct {
	ID string `arg:"" help:"ID of the DLQ entry."`
	oneOutput
	connection
}

// Run prints the entry.
func (c *showEntry[D]) Run(t terminal) error {
	var d D
	return c.show(t, client.Request{Path: d.dlq().path + "/" + url.PathEscape(c.ID)}, c.Output, d.dlq().print)
}

// selectedEntries are the entries of a DLQ that a command is about.
type selectedEntries[D dlq] struct {
	IDs []string `arg:"" optional:"" name:"id" help:"IDs of DLQ entries."`
	DLQ D        `embed:""`
	sweeping
}

// Validate returns a sentence about the first setting that is wrong.
func (s *selectedEntries[D]) Validate() error {
	if err := selectionOf(len(s.IDs) > 0, len(params(s.DLQ)) > 0, s.All); err != nil {
		return err
	}
	return s.connection.Validate()
}

// request returns the request for a method and a path below the DLQ.
func (s *selectedEntries[D]) request(method, path string) client.Request {
	request := client.Request{Method: method, Path: s.DLQ.dlq().path + path, Query: params(s.DLQ)}
	if len(s.IDs) > 0 {
		request.Body = map[string]any{"dlqIds": s.IDs}
	}
	return request
}
