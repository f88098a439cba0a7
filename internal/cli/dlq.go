package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"posthaste"
	"posthaste/internal/client"
)

// dlqCommand is about what failed for good: runs of workflows, and messages.
type dlqCommand struct {
	List    listEntries[failedRuns]     `cmd:"" help:"List failed runs in the DLQ."`
	Show    showEntry[failedRuns]       `cmd:"" set:"idhelp=ID of the DLQ entry." help:"Show why a run failed."`
	Restart remakeEntries[selectedRuns] `cmd:"" help:"Restart failed runs from the beginning."`
	Resume  remakeEntries[selectedRuns] `cmd:"" help:"Restart failed runs from the step that failed."`
	Delete  deleteEntries[selectedRuns] `cmd:"" help:"Delete failed runs from the DLQ."`

	Messages deadLettersCommand `cmd:"" help:"List, show, retry and delete messages in the DLQ."`
}

// deadLettersCommand is about messages that failed for good.
type deadLettersCommand struct {
	List   listEntries[deadLetters]       `cmd:"" help:"List messages in the DLQ."`
	Show   showEntry[deadLetters]         `cmd:"" set:"idhelp=ID of the DLQ entry." help:"Show why a message failed."`
	Retry  remakeEntries[selectedLetters] `cmd:"" help:"Publish failed messages again."`
	Delete deleteEntries[selectedLetters] `cmd:"" help:"Delete messages from the DLQ."`
}

// dlq is one of the two DLQs. Its fields are the filters of its entries, as flags.
type dlq interface {
	resource
	other() otherDLQ
	prefix() (id, filter string) // that the IDs of what failed have, and the flag that takes those
}

// otherDLQ is where else to look: who looks for an entry would not look for a second DLQ.
type otherDLQ struct {
	thing    string // that is in it
	path     string
	commands string // the command that they are below
	in       func(kept) keptKind
}

// showEntry shows an entry of a DLQ.
type showEntry[D dlq] struct {
	ID string `arg:"" name:"id" help:"ID of the DLQ entry."`
	oneOutput
	connection
}

// Run prints the entry, or says where to find the one that is meant.
func (c *showEntry[D]) Run(t terminal) error {
	var d D
	kind, other := d.kind(), d.other()
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		var entry json.RawMessage
		err := server.Do(ctx, client.Request{Path: below(kind.paths[0], c.ID)}, &entry)
		switch {
		case !isNotFound(err) && err != nil:
			return err
		case err == nil && c.Output == "json":
			return writeJSON(t.Out, entry)
		case err == nil:
			return kind.print(t, entry)
		case server.Do(ctx, client.Request{Path: below(other.path, c.ID)}, nil) == nil:
			return fmt.Errorf("DLQ entry %s is a %s: %s show %[1]s", c.ID, other.thing, other.commands)
		}
		if prefix, filter := d.prefix(); strings.HasPrefix(c.ID, prefix) {
			return notAnEntry(d, c.ID, filter)
		}
		return fmt.Errorf("there is no DLQ entry %q: its ID is the one that posthaste dlq list or posthaste dlq messages list shows, such as 1700000000000-0", c.ID)
	})
}

// notAnEntry says that an ID is that of what failed.
func notAnEntry(d dlq, id, filter string) error {
	return posthaste.Invalidf("%q is not the ID of a DLQ entry: give the one that the list of %ss shows, such as 1700000000000-0, or %s=%s", id, d.kind().thing, filter, id)
}

// listEntries lists the entries of a DLQ.
type listEntries[D dlq] struct {
	DLQ D `embed:""`
	listing
}

// Run prints the entries, and on Err how to list those of the other DLQ if there are any.
func (c *listEntries[D]) Run(t terminal) error {
	kind, other := c.DLQ.kind(), c.DLQ.other()
	request := client.Request{Path: kind.paths[0], Query: c.withoutBodies(params(c))}
	if err := c.print(t, request, "messages", kind.table); err != nil || c.Output != "table" {
		return err
	}
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		var found kept
		if err := server.Do(ctx, client.Request{Path: "/v2/usage"}, &found); err != nil {
			return err
		}
		if n := int(other.in(found).Entries); n > 0 {
			return writeLine(t.Err, "The DLQ also has %s. List them with: %s", counted(n, other.thing), other.commands+" list")
		}
		return nil
	})
}

// selectedEntries are the entries of a DLQ that a command is about.
type selectedEntries[D dlq] struct {
	IDs []string `arg:"" optional:"" name:"id" help:"IDs of DLQ entries."`
	DLQ D        `embed:""`
	sweeping
}

// Validate returns a sentence about the first setting that is wrong.
func (s selectedEntries[D]) Validate() error {
	if err := selectionOf(len(s.IDs) > 0, len(params(s.DLQ)) > 0, s.All); err != nil {
		return err
	}
	prefix, filter := s.DLQ.prefix()
	for _, id := range distinctIDs(s.IDs) {
		if strings.HasPrefix(id, prefix) || !entryID.MatchString(id) {
			return notAnEntry(s.DLQ, id, filter)
		}
	}
	return s.connection.Validate()
}

// entryID is what an ID of a DLQ entry looks like.
var entryID = regexp.MustCompile(`^[0-9]+-[0-9]+$`)

// request returns the request for a method and a path below the DLQ.
func (s selectedEntries[D]) request(method, path string) client.Request {
	request := client.Request{Method: method, Path: s.DLQ.kind().paths[0] + path, Query: params(s.DLQ)}
	if len(s.IDs) > 0 {
		request.Body = map[string]any{"dlqIds": s.IDs}
	}
	return request
}

// selection is what a command of a DLQ is about: entries of one of the two.
type selection interface {
	request(method, path string) client.Request
	change(done string) change
	connect() *sweeping
}

// remakeEntries puts something new in the place of entries: runs, or messages.
type remakeEntries[S selection] struct {
	Entries S `embed:""`
	overrides
	listOutput
}

// Run asks for what the command is called.
func (c *remakeEntries[S]) Run(t terminal, parsed *kong.Context) error {
	return c.remake(t, parsed.Selected().Name)
}

func (c *remakeEntries[S]) remake(t terminal, verb string) error {
	request := c.Entries.request(http.MethodPost, "/"+verb)
	request.Header = tagged(c.overrides)
	return c.Entries.connect().sweep(t, request, c.Entries.change(done[verb]), c.Output)
}

// deleteEntries deletes entries.
type deleteEntries[S selection] struct {
	Entries S `embed:""`
	confirmation
	oneOutput
}

// Run deletes the entries. Many are counted first, so that it is known what is deleted.
func (c *deleteEntries[S]) Run(t terminal) error {
	change := c.Entries.change("deleted")
	change.made, change.together = "", false
	if change.named == 0 {
		change.ask = &c.confirmation
	}
	return c.Entries.connect().sweep(t, c.Entries.request(http.MethodDelete, ""), change, c.Output)
}
