package main

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"posthaste/internal/client"
)

// deadLetters is the DLQ of messages (contract, messages 2.9). Its filters have the names
// that those of the log have.
type deadLetters struct {
	MessageID      []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Message with an ID. A filter given more than once matches any of its values."`
	Destination    []string `group:"filter" env:"-" sep:"none" placeholder:"URL" help:"Messages to a URL."`
	TopicName      []string `group:"filter" env:"-" sep:"none" placeholder:"NAME" help:"Messages sent through a URL group."`
	ScheduleID     []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Messages created by a schedule."`
	QueueName      []string `group:"filter" env:"-" sep:"none" placeholder:"NAME" help:"Messages sent through a queue."`
	ResponseStatus []string `group:"filter" env:"-" sep:"none" placeholder:"STATUS" help:"Messages that failed with a response status, such as 500; 0 means no response."`
	Label          []string `group:"filter" env:"-" sep:"none" placeholder:"LABEL" help:"Messages with a label."`
	CallerIP       []string `group:"filter" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"Messages published from an IP address."`
	FlowControlKey []string `group:"filter" env:"-" sep:"none" placeholder:"KEY" help:"Messages with a flow-control key."`
	FromDate       moment   `group:"filter" env:"-" placeholder:"TIME" help:"Messages that failed at or after a time: Unix milliseconds, 2006-01-02 15:04 (local time), 2006-01-02T15:04:05Z, or an age such as 15m or 2d."`
	ToDate         moment   `group:"filter" env:"-" placeholder:"TIME" help:"Messages that failed at or before a time."`
}

func (deadLetters) path() string { return "/v2/dlq" }

func (f deadLetters) params() url.Values {
	params := url.Values{}
	setAll(params, map[string][]string{
		"messageId": f.MessageID, "url": f.Destination, "topicName": f.TopicName, "scheduleId": f.ScheduleID,
		"queueName": f.QueueName, "responseStatus": f.ResponseStatus, "label": f.Label,
		"callerIp": f.CallerIP, "flowControlKey": f.FlowControlKey,
		"fromDate": f.FromDate.values(), "toDate": f.ToDate.values(),
	})
	return params
}

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
	list := client.Request{Path: s.DLQ.path(), Query: s.DLQ.params()}.With("trimBody", noBodies)
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
