package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"posthaste"
	"posthaste/internal/client"
)

// The settings of messages have the names that the API gives them. They are not taken from the
// environment, where a forgotten one would change what is sent.

// commonSettings are the settings that messages and runs have.
type commonSettings struct {
	Method           string    `group:"setting" header:"Upstash-Method" short:"X" env:"-" placeholder:"METHOD" help:"HTTP method of the delivery. Default: POST."`
	Delay            string    `group:"setting" header:"Upstash-Delay" env:"-" placeholder:"SPAN" help:"Delay before the first attempt, such as 10m or 1d12h."`
	NotBefore        notBefore `group:"setting" header:"Upstash-Not-Before" env:"-" placeholder:"TIME" help:"Earliest time of the first attempt, such as 2006-01-02T15:04:05Z or 2006-01-02 15:04 (local time). It overrides --delay."`
	Retries          string    `group:"setting" header:"Upstash-Retries" env:"-" placeholder:"N" help:"Maximum number of retries. Default: 3."`
	RetryDelay       string    `group:"setting" header:"Upstash-Retry-Delay" env:"-" placeholder:"EXPR" help:"Expression for the delay before a retry, in milliseconds, such as 1000 * pow(2, retried)."`
	Timeout          string    `group:"setting" header:"Upstash-Timeout" env:"-" placeholder:"SPAN" help:"Maximum duration of an attempt, such as 30s."`
	Label            []string  `group:"setting" header:"Upstash-Label" env:"-" sep:"none" placeholder:"LABEL" help:"Label to filter by, or several separated by commas; can be given more than once."`
	FailureCallback  string    `group:"setting" header:"Upstash-Failure-Callback" env:"-" placeholder:"URL" help:"URL that is called when there are no more attempts."`
	FlowControlKey   string    `group:"setting" header:"Upstash-Flow-Control-Key" env:"-" placeholder:"KEY" help:"Key whose messages share limits."`
	FlowControlValue string    `group:"setting" header:"Upstash-Flow-Control-Value" env:"-" placeholder:"VALUE" help:"Limits of the key, such as parallelism=5,rate=10,period=1m."`
	RedactFields     string    `group:"setting" header:"Upstash-Redact-Fields" env:"-" placeholder:"FIELDS" help:"Parts to hide in all responses: body, header or header[NAME], separated by commas."`
}

// callbackSetting is the setting that only messages have.
type callbackSetting struct {
	Callback string `group:"setting" header:"Upstash-Callback" env:"-" placeholder:"URL" help:"URL that is called with the response of each attempt."`
}

// deduplication says which publications are the same.
type deduplication struct {
	DeduplicationID           string `group:"setting" header:"Upstash-Deduplication-Id" env:"-" placeholder:"ID" help:"For ten minutes, another message with the same ID is not delivered."`
	ContentBasedDeduplication bool   `group:"setting" header:"Upstash-Content-Based-Deduplication" env:"-" help:"For ten minutes, the same body to the same destination is not delivered again."`
}

// notBefore is a time that the API takes in seconds.
type notBefore struct{ timeFlag }

// checkFlow returns a sentence about a flow-control key without limits, which the API refuses.
func (s *commonSettings) checkFlow() error {
	if (s.FlowControlKey == "") != (s.FlowControlValue == "") {
		return posthaste.Invalidf("--flow-control-key and --flow-control-value go together: give both, such as --flow-control-key tenant-7 --flow-control-value parallelism=5")
	}
	return nil
}

// headerFlags are headers of the delivery.
type headerFlags struct {
	Header []string `group:"setting" short:"H" env:"-" sep:"none" placeholder:"NAME: VALUE" help:"Header of the delivery; can be given more than once."`
}

func (h *headerFlags) check() error {
	for _, line := range h.Header {
		if name, _, found := strings.Cut(line, ":"); !found || !posthaste.IsHeaderName(strings.TrimSpace(name)) {
			return posthaste.Invalidf("header %q is not NAME: VALUE", line)
		} else if setting, is := strings.CutPrefix(http.CanonicalHeaderKey(strings.TrimSpace(name)), "Upstash-"); is {
			return posthaste.Invalidf("header %q is a setting, and not delivered: give it as a flag, such as --%s", line, strings.ToLower(setting))
		}
	}
	return nil
}

// forward adds the headers as the API takes those of the delivery.
func (h *headerFlags) forward(to http.Header) {
	for _, line := range h.Header {
		name, value, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !strings.EqualFold(name, "Content-Type") {
			name = "Upstash-Forward-" + name
		}
		to.Add(name, strings.TrimSpace(value))
	}
}

// content is what is delivered.
type content struct {
	Data string `short:"d" env:"-" placeholder:"TEXT" help:"Body: text, @FILE, or - for standard input. Default: empty."`
	headerFlags
}

// put makes the content that of a request. A body that has no media type is JSON if it can be
// read as such, and text if not.
func (c *content) put(request *client.Request) error {
	body := []byte(c.Data)
	file, isFile := strings.CutPrefix(c.Data, "@")
	if isFile || c.Data == "-" {
		var err error
		if body, err = readAll(file); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
	}
	c.putBytes(request, body)
	return nil
}

// putBytes makes the headers and a body those of a request.
func (c *content) putBytes(request *client.Request, body []byte) {
	c.forward(request.Header)
	request.Body = body
	switch {
	case len(body) == 0 || request.Header.Get("Content-Type") != "":
	case json.Valid(body):
		request.Header.Set("Content-Type", "application/json")
	default:
		request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
}

// tagged returns the settings that a command's fields give, as headers.
func tagged(settings any) http.Header {
	header := http.Header{}
	addTagged("header", reflect.ValueOf(settings), header.Add)
	return header
}

func addAll(to, from http.Header) {
	for name, values := range from {
		to[name] = append(to[name], values...)
	}
}

// submission is what commands share that make the server send something.
type submission struct {
	content
	oneOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (s *submission) Validate() error {
	return cmp.Or(s.headerFlags.check(), s.connection.Validate())
}

// submit sends a request with settings and the content to a path that ends with a destination,
// and prints what the server accepted.
func (s *submission) submit(t terminal, path, destination string, settings ...any) error {
	request := client.Request{Method: http.MethodPost, Path: path + destination, Header: http.Header{}}
	for _, some := range settings {
		addAll(request.Header, tagged(some))
	}
	if err := s.put(&request); err != nil {
		return err
	}
	return s.call(t, func(ctx context.Context, server *client.Client) error {
		var answer json.RawMessage
		if err := server.Do(ctx, request, &answer); err != nil {
			return hinted(err, destination)
		}
		if s.Output == "json" {
			return writeJSON(t.Out, answer)
		}
		return printReceipts(t, answer)
	})
}

// hinted returns what a server answers to a publication, and what to give if the destination is
// neither a URL nor a group that there is.
func hinted(err error, destination string) error {
	if isNotFound(err) && !strings.Contains(destination, "://") {
		return fmt.Errorf("there is no URL group %q: give a URL, such as https://%[1]s, or create the group with posthaste groups set %[1]s --endpoint URL", destination)
	}
	if refused, ok := errors.AsType[*client.StatusError](err); ok {
		named := *refused
		named.Message = refusedSetting.ReplaceAllStringFunc(refused.Message, func(header string) string {
			return "--" + strings.ToLower(strings.TrimPrefix(header, "Upstash-"))
		})
		return &named
	}
	return err
}

// refusedSetting is a setting that a server refuses, by its header. Its flag has the same name.
var refusedSetting = regexp.MustCompile(`^Upstash-(Method|Delay|Not-Before|Retries|Retry-Delay|Timeout|Label|Redact-Fields|Deduplication-Id|Queue-Name|Flow-Control-Key|Flow-Control-Value|Callback|Failure-Callback) `)

// printReceipts writes what was accepted, a line each: one thing, or one of each endpoint of a
// URL group.
func printReceipts(t terminal, answer json.RawMessage) error {
	var several []json.RawMessage
	if json.Unmarshal(answer, &several) != nil {
		several = []json.RawMessage{answer}
	}
	for _, one := range several {
		var receipt struct {
			MessageID    string `json:"messageId"`
			ScheduleID   string `json:"scheduleId"`
			RunID        string `json:"workflowRunId"`
			URL          string `json:"url"`
			Deduplicated bool   `json:"deduplicated"`
			Error        string `json:"error"`
		}
		if err := json.Unmarshal(one, &receipt); err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
		line := ""
		switch {
		case receipt.Error != "":
			line = "refused: " + receipt.Error
		case receipt.RunID != "":
			line = "run " + receipt.RunID
		case receipt.ScheduleID != "":
			line = "schedule " + receipt.ScheduleID
		default:
			line = "message " + receipt.MessageID
		}
		if receipt.URL != "" {
			line += " to " + receipt.URL
		}
		if receipt.Deduplicated {
			line += ", accepted by an earlier request"
		}
		if err := writeLine(t.Out, "%s", shown(line)); err != nil {
			return err
		}
	}
	return nil
}

// publishCommand publishes a message.
type publishCommand struct {
	Destination string `arg:"" help:"URL of the destination, or name of a URL group."`
	commonSettings
	callbackSetting
	deduplication
	submission
}

// Validate returns a sentence about the first setting that is wrong.
func (c *publishCommand) Validate() error { return cmp.Or(c.checkFlow(), c.submission.Validate()) }

// Run publishes the message.
func (c *publishCommand) Run(t terminal) error {
	return c.submit(t, "/v2/publish/", c.Destination, c.commonSettings, c.callbackSetting, c.deduplication)
}

// enqueueCommand publishes a message through a queue.
type enqueueCommand struct {
	Queue       string `arg:"" help:"Name of the queue; created with parallelism 1 if it does not exist."`
	Destination string `arg:"" help:"URL of the destination, or name of a URL group."`
	commonSettings
	callbackSetting
	deduplication
	submission
}

// Validate returns a sentence about the first setting that is wrong.
func (c *enqueueCommand) Validate() error { return cmp.Or(c.checkFlow(), c.submission.Validate()) }

// Run publishes the message.
func (c *enqueueCommand) Run(t terminal) error {
	return c.submit(t, below("/v2/enqueue", c.Queue)+"/", c.Destination, c.commonSettings, c.callbackSetting, c.deduplication)
}

// triggerCommand starts a run of a workflow.
type triggerCommand struct {
	WorkflowURL   string `arg:"" name:"workflow-url" help:"URL of the workflow."`
	WorkflowRunID string `header:"Upstash-Workflow-RunId" env:"-" placeholder:"ID" help:"ID of the run. Default: generated."`
	commonSettings
	submission
}

// Validate returns a sentence about the first setting that is wrong.
func (c *triggerCommand) Validate() error { return cmp.Or(c.checkFlow(), c.submission.Validate()) }

// Run starts the run.
func (c *triggerCommand) Run(t terminal) error {
	header := struct {
		ID string `header:"Upstash-Workflow-RunId"`
	}{c.WorkflowRunID}
	return c.submit(t, "/v2/trigger/", c.WorkflowURL, c.commonSettings, header)
}

// notifyCommand notifies runs of an event.
type notifyCommand struct {
	Event         string `arg:"" help:"ID of the event."`
	WorkflowRunID string `env:"-" placeholder:"ID" help:"Notify only this run, even if it does not wait yet. Default: all runs that wait for the event."`
	Data          string `short:"d" env:"-" placeholder:"TEXT" help:"Data of the event: text, @FILE, or - for standard input. Default: none."`
	oneOutput
	connection
}

// Run notifies the runs, and says which they are.
func (c *notifyCommand) Run(t terminal) error {
	path := "/v2/notify/" + url.PathEscape(c.Event)
	if c.WorkflowRunID != "" {
		path = "/v2/notify/" + url.PathEscape(c.WorkflowRunID) + "/" + url.PathEscape(c.Event)
	}
	request := client.Request{Method: http.MethodPost, Path: path, Header: http.Header{}}
	if err := (&content{Data: c.Data}).put(&request); err != nil {
		return err
	}
	return c.show(t, request, c.Output, func(t terminal, answer json.RawMessage) error {
		var notified []struct {
			RunID string `json:"workflowRunId"`
		}
		if json.Unmarshal(answer, &notified) != nil { // of one run, an object may be answered
			return writeLine(t.Out, "notified run %s", shown(c.WorkflowRunID))
		}
		for _, run := range notified {
			if err := writeLine(t.Out, "notified run %s", shown(run.RunID)); err != nil {
				return err
			}
		}
		if len(notified) == 0 && c.WorkflowRunID == "" {
			return writeLine(t.Err, "No run waits for the event %s.", shown(c.Event))
		}
		return nil
	})
}
