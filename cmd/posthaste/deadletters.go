package main

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

	messageFilters `set:"things=Messages" set:"made=Messages published" set:"timed=Messages that failed"`
}

func (deadLetters) path() string { return "/v2/dlq" }

// selectedLetters are the dead letters that a command is about.
type selectedLetters struct{ selectedEntries[deadLetters] }

func (s *selectedLetters) change(done string) change {
	return change{thing: "message", done: done, named: countIDs(s.IDs), foresee: s.list}
}

// list foresees what is selected by listing it: the server has no dry run for messages.
func (s *selectedLetters) list(ctx context.Context, server *client.Client, _ client.Request) iter.Seq2[foreseen, error] {
	return func(yield func(foreseen, error) bool) { yield(s.listAll(ctx, server)) }
}

func (s *selectedLetters) listAll(ctx context.Context, server *client.Client) (foreseen, error) {
	found := foreseen{DryRun: true, DLQIDs: []string{}}
	for _, request := range s.lists() {
		for value, err := range values(server.Pages(ctx, request), "messages") {
			var entry listedMessage
			if err == nil {
				err = json.Unmarshal(value, &entry)
			}
			if err != nil {
				return foreseen{}, err
			}
			found.DLQIDs = append(found.DLQIDs, entry.DLQID)
		}
	}
	found.Total = len(found.DLQIDs)
	return found, nil
}

// lists returns the requests that list what is selected. Of ids each has as many as a page
// has room for: unlike a change, a list takes only so many.
func (s *selectedLetters) lists() (requests []client.Request) {
	const portion = 100
	list := client.Request{Path: s.DLQ.path(), Query: params(s.DLQ)}.With("trimBody", noBodies)
	if len(s.IDs) == 0 {
		return []client.Request{list}
	}
	for ids := range slices.Chunk(distinctIDs(s.IDs), portion) {
		requests = append(requests, list.With("dlqIds", strings.Join(ids, ",")))
	}
	return requests
}

// retryDeadLettersCommand publishes messages anew.
type retryDeadLettersCommand struct {
	selectedLetters
	overrides
	listOutput
}

// Run retries the messages.
func (c *retryDeadLettersCommand) Run(t terminal) error {
	request, change := c.request(http.MethodPost, "/retry"), c.change("retried")
	request.Header = c.header()
	change.made, change.newTable, change.together = "responses", newRetriedTable, true
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
