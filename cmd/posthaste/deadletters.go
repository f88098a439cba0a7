package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"posthaste/internal/client"
)

// deadLettersCommand is about messages that failed for good.
type deadLettersCommand struct {
	List   listDeadLettersCommand   `cmd:"" help:"List messages that failed for good."`
	Show   showDeadLetterCommand    `cmd:"" help:"Show why a message failed."`
	Retry  retryDeadLettersCommand  `cmd:"" help:"Publish messages that failed anew."`
	Delete deleteDeadLettersCommand `cmd:"" help:"Delete messages that failed from the DLQ."`
}

// pathDeadLetters is the DLQ of messages.
const pathDeadLetters = "/v2/dlq"

// deadLetterFilter are the filters of the DLQ of messages (contract, messages 2.9). They
// have the names that those of the log have.
type deadLetterFilter struct {
	MessageID      []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"A message. Any filter can be given more than once, for messages that match one of the values."`
	Destination    []string `group:"filter" env:"-" sep:"none" placeholder:"URL" help:"Messages to a URL."`
	TopicName      []string `group:"filter" env:"-" sep:"none" placeholder:"NAME" help:"Messages through a URL group."`
	ScheduleID     []string `group:"filter" env:"-" sep:"none" placeholder:"ID" help:"Messages of a schedule."`
	QueueName      []string `group:"filter" env:"-" sep:"none" placeholder:"NAME" help:"Messages through a queue."`
	ResponseStatus []string `group:"filter" env:"-" sep:"none" placeholder:"STATUS" help:"Messages that failed with a status, such as 500; 0 is none."`
	Label          []string `group:"filter" env:"-" sep:"none" placeholder:"LABEL" help:"Messages with a label."`
	CallerIP       []string `group:"filter" env:"-" sep:"none" name:"caller-ip" placeholder:"ADDRESS" help:"Messages published from an address."`
	FlowControlKey []string `group:"filter" env:"-" sep:"none" placeholder:"KEY" help:"Messages under a flow-control key."`
	FromDate       moment   `group:"filter" env:"-" placeholder:"TIME" help:"Messages that failed since a time: Unix milliseconds, 2006-01-02T15:04:05Z, or how long ago, such as 15m or 2d."`
	ToDate         moment   `group:"filter" env:"-" placeholder:"TIME" help:"Messages that failed until a time."`
}

func (f *deadLetterFilter) params() url.Values {
	params := url.Values{}
	setAll(params, map[string][]string{
		"messageId": f.MessageID, "url": f.Destination, "topicName": f.TopicName, "scheduleId": f.ScheduleID,
		"queueName": f.QueueName, "responseStatus": f.ResponseStatus, "label": f.Label,
		"callerIp": f.CallerIP, "flowControlKey": f.FlowControlKey,
		"fromDate": f.FromDate.values(), "toDate": f.ToDate.values(),
	})
	return params
}

// listDeadLettersCommand lists dead letters.
type listDeadLettersCommand struct {
	deadLetterFilter
	listing
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *listDeadLettersCommand) Validate() error {
	return firstError(c.listing.check(), c.connection.check())
}

// Run prints the entries of the DLQ.
func (c *listDeadLettersCommand) Run(t terminal) error {
	server, err := c.open(t)
	if err != nil {
		return err
	}
	request := client.Request{Path: pathDeadLetters, Query: c.listing.params(c.deadLetterFilter.params())}
	return c.print(t, server, request, "messages", newDeadLetterTable)
}

// showDeadLetterCommand shows one dead letter.
type showDeadLetterCommand struct {
	ID string `arg:"" help:"The id of the entry in the DLQ."`
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *showDeadLetterCommand) Validate() error { return c.check() }

// Run prints the entry.
func (c *showDeadLetterCommand) Run(t terminal) error {
	return showOne(t, &c.connection, pathDeadLetters, c.ID, c.Output, printMessage)
}

// selectedLetters are the dead letters that a command is about.
type selectedLetters struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of entries of the DLQ."`
	deadLetterFilter
	sweeping
}

// Validate returns a sentence about the first setting that is wrong.
func (s *selectedLetters) Validate() error { return s.check(s.IDs, s.params()) }

// request returns the request for a method and a path below the DLQ.
func (s *selectedLetters) request(method, path string) client.Request {
	request := client.Request{Method: method, Path: pathDeadLetters + path, Query: s.params()}
	if len(s.IDs) > 0 {
		request.Body = map[string]any{"dlqIds": s.IDs}
	}
	return request
}

// count counts the entries by listing them: the server has no dry run for messages.
func (s *selectedLetters) count(ctx context.Context, server *client.Client, _ client.Request) (int, json.RawMessage, error) {
	request := client.Request{Path: pathDeadLetters, Query: s.params()}
	if len(s.IDs) > 0 {
		request.Query["dlqIds"] = s.IDs
	}
	ids := []string{}
	for value, err := range values(ctx, server, request, "messages") {
		var entry listedMessage
		if err == nil {
			err = json.Unmarshal(value, &entry)
		}
		if err != nil {
			return 0, nil, err
		}
		ids = append(ids, entry.DLQID)
	}
	answer, err := json.Marshal(map[string]any{"dryRun": true, "total": len(ids), "dlqIds": ids})
	return len(ids), answer, err
}

// retryDeadLettersCommand publishes messages anew.
type retryDeadLettersCommand struct {
	selectedLetters
	overrides
	listOutput
}

// Run retries the messages.
func (c *retryDeadLettersCommand) Run(t terminal) error {
	request := c.request(http.MethodPost, "/retry")
	request.Header = c.header()
	return c.sweep(t, request, change{
		thing: "message", done: "retried", made: "responses", newTable: newRetriedTable, count: c.count,
	}, c.Output)
}

// deleteDeadLettersCommand deletes dead letters.
type deleteDeadLettersCommand struct {
	selectedLetters
	oneOutput
}

// Run deletes the entries.
func (c *deleteDeadLettersCommand) Run(t terminal) error {
	return c.sweep(t, c.request(http.MethodDelete, ""), change{thing: "message", done: "deleted", count: c.count}, c.Output)
}
