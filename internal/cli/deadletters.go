package cli

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
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

func (deadLetters) dlq() dlqKind {
	return dlqKind{
		path: "/v2/dlq", table: deadLetterTable, print: printMessage,
		other: "workflow run", listOther: "posthaste dlq list", inOther: func(k kept) keptKind { return k.FailedRuns },
	}
}

// selectedLetters are the dead letters that a command is about.
type selectedLetters struct{ selectedEntries[deadLetters] }

func (s *selectedLetters) change(done string) change {
	return change{thing: "message", done: done, named: countIDs(s.IDs), dryRun: s.list}
}

// list is the dry run for messages, which the server has none for: it lists what is selected.
func (s *selectedLetters) list(ctx context.Context, server *client.Client, _ client.Request) iter.Seq2[preview, error] {
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
func (s *selectedLetters) lists() (requests []client.Request) {
	const mostIDs = 100
	list := client.Request{Path: s.DLQ.dlq().path, Query: params(s.DLQ)}.With("trimBody", noBodies)
	if len(s.IDs) == 0 {
		return []client.Request{list}
	}
	for ids := range slices.Chunk(distinctIDs(s.IDs), mostIDs) {
		requests = append(requests, list.With("dlqIds", strings.Join(ids, ",")))
	}
	return requests
}

// retryDeadLettersCommand publishes messages again.
type retryDeadLettersCommand struct {
	selectedLetters
	overrides
	listOutput
}

// Run retries the messages.
func (c *retryDeadLettersCommand) Run(t terminal) error {
	request, change := c.request(http.MethodPost, "/retry"), c.change("retried")
	request.Header = c.header()
	change.made, change.table, change.together = "responses", retriedTable, true
	return c.sweep(t, request, change, c.Output)
}

// deleteDeadLettersCommand deletes dead letters.
type deleteDeadLettersCommand struct {
	selectedLetters
	oneOutput
}

// Run deletes the entries.
func (c *deleteDeadLettersCommand) Run(t terminal) error {
	return c.sweep(t, c.request(http.MethodDelete, ""), c.change("deleted"), c.Output)
}
