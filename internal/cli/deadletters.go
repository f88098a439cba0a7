package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"posthaste/internal/client"
)

// deadLetters is the DLQ of messages (contract, messages 2.9).
type deadLetters struct {
	MessageID      []string `group:"filter" param:"messageId" env:"-" sep:"none" placeholder:"ID" help:"Message with an ID. A filter given more than once matches any of its values."`
	ResponseStatus []string `group:"filter" param:"responseStatus" env:"-" sep:"none" placeholder:"STATUS" help:"Messages that failed with a response status, such as 500; 0 means no response."`

	messageFilters `kong:"set='things=Messages',set='made=Messages published',set='timed=Messages that failed'"`
}

func (deadLetters) kind() kind {
	return kind{thing: "message", paths: []string{"/v2/dlq"}, list: "messages", table: deadLetterTable, print: printMessage}
}

func (deadLetters) prefix() (id, filter string) { return "msg_", "--message-id" }

func (deadLetters) other() otherDLQ {
	return otherDLQ{"workflow run", "/v2/workflows/dlq", "posthaste dlq", func(k kept) keptKind { return k.FailedRuns }}
}

// selectedLetters are the dead letters that a command is about.
type selectedLetters struct{ selectedEntries[deadLetters] }

func (s selectedLetters) change(done string) change {
	return change{
		thing: "message", done: done, named: countIDs(s.IDs), dryRun: s.list,
		made: "responses", table: retriedTable, together: true,
	}
}

// list is the dry run for messages, which the server has none for: it lists what is selected.
func (s selectedLetters) list(ctx context.Context, server *client.Client, _ client.Request) iter.Seq2[preview, error] {
	return func(yield func(preview, error) bool) {
		found := preview{DryRun: true, DLQIDs: []string{}}
		for _, request := range s.lists() {
			from := source{server: server, request: request, name: "messages"}
			for value, err := range from.values(ctx) {
				var entry listedMessage
				if err == nil {
					err = json.Unmarshal(value, &entry)
				}
				if err != nil {
					yield(preview{}, err)
					return
				}
				found.DLQIDs = append(found.DLQIDs, entry.DLQID)
			}
		}
		found.Total = len(found.DLQIDs)
		yield(found, nil)
	}
}

// lists returns the requests that list what is selected. A list takes fewer ids than a
// change.
func (s selectedLetters) lists() (requests []client.Request) {
	const mostIDs = 100
	list := client.Request{Path: s.DLQ.kind().paths[0], Query: params(s.DLQ)}.With("trimBody", noBodies)
	if len(s.IDs) == 0 {
		return []client.Request{list}
	}
	for ids := range slices.Chunk(distinctIDs(s.IDs), mostIDs) {
		requests = append(requests, list.With("dlqIds", strings.Join(ids, ",")))
	}
	return requests
}

// retryMessagesCommand publishes messages again whose dead letters are there.
type retryMessagesCommand struct {
	IDs    []string `arg:"" name:"id" help:"Message IDs."`
	DryRun bool     `env:"-" help:"Change nothing; show how many messages would be published again."`
	overrides
	listOutput
	connection
}

// Run retries the dead letters that have the messages. That one has none is an error.
func (c *retryMessagesCommand) Run(t terminal) error {
	letters := selectedLetters{selectedEntries[deadLetters]{sweeping: sweeping{DryRun: c.DryRun, connection: c.connection}}}
	letters.DLQ.MessageID = distinctIDs(c.IDs)
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		for found, err := range letters.list(ctx, server, client.Request{}) {
			if err != nil {
				return err
			}
			letters.IDs = found.DLQIDs
		}
		if n := len(letters.DLQ.MessageID) - len(letters.IDs); n > 0 {
			return fmt.Errorf("%d of %s could not be retried: not in the DLQ", n, counted(len(letters.DLQ.MessageID), "message"))
		}
		letters.DLQ.MessageID = nil
		return (&remakeEntries[selectedLetters]{letters, c.overrides, c.listOutput}).remake(t, "retry")
	})
}
