package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"posthaste/internal/client"
)

// messagesCommand is about messages that have not ended.
type messagesCommand struct {
	Show   showMessageCommand    `cmd:"" help:"Show a message."`
	RunNow runNowCommand         `cmd:"" name:"run-now" help:"Deliver a delayed or retrying message now."`
	Cancel cancelMessagesCommand `cmd:"" help:"Cancel messages."`
}

// pathMessages is where messages are.
const pathMessages = "/v2/messages"

// showMessageCommand shows one message as it was published.
type showMessageCommand struct {
	ID string `arg:"" help:"Message ID."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *showMessageCommand) Validate() error { return c.check() }

// Run prints the message, and from its log where it stands and why. The log goes on telling
// of a message that was cancelled.
func (c *showMessageCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := c.open(t)
	if err != nil {
		return err
	}
	message := map[string]any{}
	err = server.Do(ctx, client.Request{Path: pathMessages + "/" + url.PathEscape(c.ID)}, &message)
	found, logErr := latestOf(ctx, server, c.ID)
	if logErr != nil || err != nil && len(found) == 0 {
		return cmp.Or(err, logErr)
	}
	for name, value := range found {
		if _, there := message[name]; !there {
			message[name] = value
		}
	}
	if c.Output == "json" {
		return writeJSON(t.Out, message)
	}
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	return printMessage(t, text)
}

// latestOf returns where a message stands, as the latest entries of its log tell: its state,
// the answer and the error of its last attempt, and when the next one is made.
func latestOf(ctx context.Context, server *client.Client, id string) (map[string]any, error) {
	var page struct {
		Events []map[string]any `json:"events"`
	}
	query := url.Values{"messageId": {id}, "count": {"10"}, "trimBody": {noBodies}}
	if err := server.Do(ctx, client.Request{Path: "/v2/logs", Query: query}, &page); err != nil || len(page.Events) == 0 {
		return nil, err
	}
	latest := page.Events[0]
	found := map[string]any{"messageId": id, "url": latest["url"], "state": latest["state"], "stateAt": latest["time"]}
	for _, name := range []string{"error", "responseStatus", "nextDeliveryTime"} {
		for _, entry := range page.Events {
			if value := entry[name]; value != nil && value != "" {
				found[name] = value
				break
			}
		}
	}
	if latest["nextDeliveryTime"] == nil {
		delete(found, "nextDeliveryTime") // of an attempt that has been made
	}
	return found, nil
}

// runNowCommand makes one message due at once.
type runNowCommand struct {
	ID string `arg:"" help:"Message ID."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *runNowCommand) Validate() error { return c.check() }

// Run asks the server, which says no when the message does not wait for a time.
func (c *runNowCommand) Run(t terminal) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := c.open(t)
	if err != nil {
		return err
	}
	var answer json.RawMessage
	request := client.Request{Method: http.MethodPost, Path: pathMessages + "/" + url.PathEscape(c.ID) + "/retry"}
	if err := server.Do(ctx, request, &answer); err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(t.Out, answer)
	}
	return writeLine(t.Out, "message %s will be delivered now", c.ID)
}

// cancelMessagesCommand cancels messages that have not ended. Its filters are those of
// DELETE /v2/messages.
type cancelMessagesCommand struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Message IDs."`

	Host []string `group:"filter" param:"host" env:"-" sep:"none" placeholder:"HOST" help:"Messages to a host, with or without port. A filter given more than once matches any of its values."`
	Path []string `group:"filter" param:"path" env:"-" sep:"none" placeholder:"PATH" help:"Messages to a path."`

	messageFilters `set:"things=Messages" set:"made=Messages published" set:"timed=Messages published"`
	All            bool `env:"-" help:"Select every message. Required if neither IDs nor a filter are given."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *cancelMessagesCommand) Validate() error {
	if err := selectionOf(len(c.IDs) > 0, len(params(c)) > 0, c.All); err != nil {
		return err
	}
	return c.check()
}

// Run cancels the messages, as many at a time as one request takes, and tells how many
// there were.
func (c *cancelMessagesCommand) Run(t terminal) error {
	request := client.Request{Method: http.MethodDelete, Path: pathMessages, Query: params(c)}
	if len(c.IDs) > 0 {
		request.Body = map[string]any{"messageIds": c.IDs}
	} else {
		request.Query.Set("count", "500")
	}
	cancelling := cancellation{"message", countIDs(c.IDs), "not known, ended, cancelled before, or of a run"}
	return cancelling.run(t, &c.connection, request, c.Output)
}

// showOne reads what has an id below a path, and writes it.
func showOne(t terminal, from *connection, path, id, output string, print func(terminal, json.RawMessage) error) error {
	ctx, forget := untilSignal()
	defer forget()
	server, err := from.open(t)
	if err != nil {
		return err
	}
	var found json.RawMessage
	if err := server.Do(ctx, client.Request{Path: path + "/" + url.PathEscape(id)}, &found); err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(t.Out, found)
	}
	return print(t, found)
}
