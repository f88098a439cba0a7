package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"posthaste"
	"posthaste/internal/app"
	"posthaste/internal/client"
)

// mcpCommand lets an agent ask a server, over the Model Context Protocol.
type mcpCommand struct {
	AllowWrites bool `env:"-" help:"Also offer tools that publish, retry, restart and cancel. Each first returns what it would do and a code, and does it when called again with the code."`
	connection
}

// Run serves one client, over standard input and output, until it goes.
func (c *mcpCommand) Run(t terminal) error {
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		out := &wholeLines{Writer: os.Stdout}
		in, lines := io.Pipe()
		go func() { lines.CloseWithError(passMessages(lines, os.Stdin, out)) }()
		err := newMCP(server, c.AllowWrites).Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// wholeLines lets answers be written side by side, each in one piece.
type wholeLines struct {
	io.Writer
	mu sync.Mutex
}

func (w *wholeLines) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(line)
}

// Close leaves standard output open, which is not ours.
func (w *wholeLines) Close() error { return nil }

// passMessages copies lines that are JSON-RPC messages. Any other is answered with an error here,
// because the SDK ends with the first line that it cannot read.
func passMessages(to io.Writer, from io.Reader, answers io.Writer) error {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if fault := faultOf(line); len(bytes.TrimSpace(line)) > 0 && fault != "" {
			_, _ = io.WriteString(answers, fault+"\n")
		} else if _, failed := to.Write(line); failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
}

// faultOf returns the answer to a line that is no JSON-RPC message, "" to one that is.
func faultOf(line []byte) string {
	const fault = `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`
	if !json.Valid(line) {
		return fmt.Sprintf(fault, jsonrpc.CodeParseError, "the line is not JSON: send one JSON-RPC message a line")
	}
	var messages []json.RawMessage
	if json.Unmarshal(line, &messages) != nil { // an older protocol has several in an array
		messages = []json.RawMessage{line}
	}
	for _, message := range messages {
		if _, err := jsonrpc.DecodeMessage(message); err != nil {
			return fmt.Sprintf(fault, jsonrpc.CodeInvalidRequest, "the line is not a JSON-RPC 2.0 message")
		}
	}
	return ""
}

const mcpInstructions = `Posthaste delivers HTTP messages and runs durable workflows. A message is CREATED, ACTIVE while it is attempted, ERROR and
RETRY when an attempt failed, and ends DELIVERED, FAILED (then it is in the DLQ) or CANCELLED. A run ends RUN_SUCCESS,
RUN_FAILED (then it is in the DLQ of runs) or RUN_CANCELED. To find out what went wrong, begin with messages or failed_runs, then
look at one with message or run. Times are Unix milliseconds in answers; as arguments also 2006-01-02T15:04:05Z or an age such as 15m.
Bodies are cut after 1000 bytes.`

// toolbox has the tools. All of them ask the API, as any other client.
type toolbox struct {
	*mcp.Server
	api *client.Client

	mu    sync.Mutex
	shown map[string]preparation // what may be done because it was shown before, by its code
}

// preparation is a call whose outcome was shown.
type preparation struct {
	call  string // the tool and its arguments
	until time.Time
}

// newMCP returns a server of tools that read, and also of those that write if that is allowed.
func newMCP(api *client.Client, writes bool) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "posthaste", Version: app.Version}, &mcp.ServerOptions{Instructions: mcpInstructions})
	b := &toolbox{Server: server, api: api, shown: map[string]preparation{}}
	b.addReading()
	if writes {
		b.addWriting()
	}
	return server
}

// Arguments have the names of the API's parameters.
type (
	nothing  struct{}
	oneThing struct {
		ID string `json:"id" jsonschema:"ID of what is shown"`
	}
	whichMessages struct {
		MessageID      string `json:"messageId,omitempty" jsonschema:"only this message"`
		State          string `json:"state,omitempty" jsonschema:"only in this state, such as FAILED"`
		URL            string `json:"url,omitempty" jsonschema:"only to this destination URL"`
		Host           string `json:"host,omitempty" jsonschema:"only to this host"`
		Path           string `json:"path,omitempty" jsonschema:"only to this path"`
		Label          string `json:"label,omitempty" jsonschema:"only with this label"`
		QueueName      string `json:"queueName,omitempty" jsonschema:"only of this queue"`
		ScheduleID     string `json:"scheduleId,omitempty" jsonschema:"only of this schedule"`
		FlowControlKey string `json:"flowControlKey,omitempty" jsonschema:"only with this flow-control key"`
		FromDate       string `json:"fromDate,omitempty" jsonschema:"only since this time"`
		ToDate         string `json:"toDate,omitempty" jsonschema:"only until this time"`
		Count          int    `json:"count,omitempty" jsonschema:"maximum number of results, 1 to 100; default 20"`
		Cursor         string `json:"cursor,omitempty" jsonschema:"cursor of an earlier answer, to continue; logs only"`
	}
	whichCounts struct {
		Bucket    string `json:"bucket,omitempty" jsonschema:"hour (default) or day"`
		Host      string `json:"host,omitempty" jsonschema:"only to this host"`
		Path      string `json:"path,omitempty" jsonschema:"only to this path"`
		QueueName string `json:"queueName,omitempty" jsonschema:"only of this queue"`
		Label     string `json:"label,omitempty" jsonschema:"only with this label"`
		FromDate  string `json:"fromDate,omitempty" jsonschema:"a time in the first bucket; default 24 hours or 30 days before the last"`
		ToDate    string `json:"toDate,omitempty" jsonschema:"a time in the last bucket; default now"`
	}
	whichLetters struct {
		DLQIDs         []string `json:"dlqIds,omitempty" jsonschema:"only these DLQ entries"`
		MessageID      string   `json:"messageId,omitempty" jsonschema:"only of this message"`
		URL            string   `json:"url,omitempty" jsonschema:"only to this destination URL"`
		Label          string   `json:"label,omitempty" jsonschema:"only with this label"`
		QueueName      string   `json:"queueName,omitempty" jsonschema:"only of this queue"`
		ResponseStatus string   `json:"responseStatus,omitempty" jsonschema:"only with this status of the last response"`
		FromDate       string   `json:"fromDate,omitempty" jsonschema:"only those that failed since this time"`
		ToDate         string   `json:"toDate,omitempty" jsonschema:"only those that failed until this time"`
	}
	whichFailedRuns struct {
		DLQIDs         []string `json:"dlqIds,omitempty" jsonschema:"only these DLQ entries"`
		WorkflowRunID  string   `json:"workflowRunId,omitempty" jsonschema:"only runs whose ID begins with this"`
		WorkflowURL    string   `json:"workflowUrl,omitempty" jsonschema:"only runs of the workflow at this URL"`
		Label          string   `json:"label,omitempty" jsonschema:"only with this label"`
		ResponseStatus string   `json:"responseStatus,omitempty" jsonschema:"only with this status of the last response"`
		FromDate       string   `json:"fromDate,omitempty" jsonschema:"only those that failed since this time"`
		ToDate         string   `json:"toDate,omitempty" jsonschema:"only those that failed until this time"`
	}
	whichRuns struct {
		State       string `json:"state,omitempty" jsonschema:"RUN_STARTED, RUN_SUCCESS, RUN_FAILED or RUN_CANCELED"`
		WorkflowURL string `json:"workflowUrl,omitempty" jsonschema:"only runs of the workflow at this URL"`
		Label       string `json:"label,omitempty" jsonschema:"only with this label"`
		FromDate    string `json:"fromDate,omitempty" jsonschema:"only those created since this time"`
		ToDate      string `json:"toDate,omitempty" jsonschema:"only those created until this time"`
		Cursor      string `json:"cursor,omitempty" jsonschema:"cursor of an earlier answer, to continue"`
	}
)

func (b *toolbox) addReading() {
	read(b, "messages", "List messages, each once: its state, attempts, last response status and error.", b.listMessages)
	read(b, "logs", "List changes of messages, the latest first.", func(ctx context.Context, in whichMessages) (any, error) {
		return b.page(ctx, "/v2/logs", in)
	})
	read(b, "log_stats", "Count changes by state, attempts by status class and latency: by hour or day, and for the hosts and paths with most errors.",
		func(ctx context.Context, in whichCounts) (any, error) {
			query, err := queryOf(in)
			if err != nil {
				return nil, err
			}
			return b.get(ctx, "/v2/logs/stats", query)
		})
	read(b, "message", "Show a message with its body, and its changes from the first to the last.", b.showMessage)
	read(b, "dead_letters", "List messages that failed for good, with the reason.", func(ctx context.Context, in whichLetters) (any, error) {
		return b.page(ctx, "/v2/dlq", in)
	})
	read(b, "failed_runs", "List workflow runs that failed, with the reason.", func(ctx context.Context, in whichFailedRuns) (any, error) {
		return b.page(ctx, "/v2/workflows/dlq", in)
	})
	read(b, "runs", "List workflow runs with their steps, the latest first, ten at a time.", func(ctx context.Context, in whichRuns) (any, error) {
		return b.page(ctx, "/v2/workflows/logs", in)
	})
	read(b, "run", "Show a workflow run: its steps, their results and errors.", func(ctx context.Context, in oneThing) (any, error) {
		return b.get(ctx, "/v2/workflows/logs", url.Values{"workflowRunId": {in.ID}, "trimBody": {mcpBody}})
	})
	for name, list := range map[string]struct {
		kind kind
		what string
	}{
		"queues":    {queues{}.kind(), "List queues: their parallelism, and how many messages wait in them."},
		"groups":    {urlGroups{}.kind(), "List URL groups and their endpoints."},
		"schedules": {schedules{}.kind(), "List schedules: when they tick, and the result of the last tick."},
		"flow_keys": {flowKeys{}.kind(), "List flow-control keys: their limits, their use, and how many messages wait."},
	} {
		read(b, name, list.what, func(ctx context.Context, _ nothing) (any, error) {
			all, err := list.kind.all(ctx, b.api, nil)
			return map[string]any{list.kind.list: all}, err
		})
	}
	read(b, "usage", "Show how much is stored.", func(ctx context.Context, _ nothing) (any, error) {
		return b.get(ctx, "/v2/usage", nil)
	})
}

// mcpBody is how many bytes of a body an agent gets.
const mcpBody = "1000"

// read adds a tool that changes nothing.
func read[In any](b *toolbox, name, description string, do func(context.Context, In) (any, error)) {
	tool := &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
	mcp.AddTool(b.Server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		out, err := do(ctx, in)
		return nil, out, err
	})
}

// get returns what the API has at a path.
func (b *toolbox) get(ctx context.Context, path string, query url.Values) (any, error) {
	var answer map[string]any
	err := b.api.Do(ctx, client.Request{Path: path, Query: query}, &answer)
	return answer, err
}

// page returns a page of a list.
func (b *toolbox) page(ctx context.Context, path string, in any) (any, error) {
	query, err := queryOf(in)
	if err != nil {
		return nil, err
	}
	query.Set("trimBody", mcpBody)
	if path == "/v2/logs" && query.Get("count") == "" {
		query.Set("count", "20")
	}
	return b.get(ctx, path, query)
}

// queryOf returns arguments as parameters of the API.
func queryOf(in any) (url.Values, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var arguments map[string]any
	if err := json.Unmarshal(text, &arguments); err != nil {
		return nil, err
	}
	query := url.Values{}
	for name, value := range arguments {
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				query.Add(name, fmt.Sprint(one))
			}
		case float64:
			query.Set(name, strconv.FormatInt(int64(value), 10))
		case string:
			if name == "fromDate" || name == "toDate" {
				at, err := parseTimeFlag(value, time.Now())
				if err != nil {
					return nil, posthaste.Invalidf("%s: %v", name, err)
				}
				value = strconv.FormatInt(at.UnixMilli(), 10)
			}
			if exact, may := withCommas[name]; may && strings.Contains(value, ",") {
				name = exact
			}
			query.Set(name, value)
		}
	}
	return query, nil
}

// listMessages returns messages, each once. The state is that of now, not of an entry.
func (b *toolbox) listMessages(ctx context.Context, in whichMessages) (any, error) {
	var states []string
	if in.State != "" {
		state, known := posthaste.ParseState(in.State)
		if !known {
			return nil, unknownState(in.State)
		}
		states, in.State = []string{string(state)}, ""
	}
	count := in.Count
	if in.Count = 0; count < 1 || count > 100 {
		count = 20
	}
	query, err := queryOf(in)
	if err != nil {
		return nil, err
	}
	stories, err := tellStories(ctx, b.api, query, states, count)
	return map[string]any{"messages": append([]*story{}, stories...)}, err
}

// showMessage returns a message while it is kept, and its log.
func (b *toolbox) showMessage(ctx context.Context, in oneThing) (any, error) {
	log, err := b.get(ctx, "/v2/logs", url.Values{"messageId": {in.ID}, "order": {"earliestFirst"}, "trimBody": {mcpBody}})
	if err != nil {
		return nil, err
	}
	message, err := b.get(ctx, below(pathMessages, in.ID), nil)
	if err == nil {
		return map[string]any{"log": log, "message": message}, nil
	}
	if events, _ := log.(map[string]any)["events"].([]any); len(events) == 0 {
		return nil, err
	}
	return map[string]any{"log": log}, nil // that of one that was cancelled is kept
}

// confirmed is an argument of each tool that writes.
type confirmed struct {
	Confirm string `json:"confirm,omitempty" jsonschema:"code from the answer to the same call without it; nothing is changed without it"`
}

type (
	someLetters struct {
		whichLetters
		confirmed
	}
	someFailedRuns struct {
		whichFailedRuns
		Resume bool `json:"resume,omitempty" jsonschema:"go on with the step that failed instead of beginning again"`
		confirmed
	}
	someMessages struct {
		MessageIDs []string `json:"messageIds" jsonschema:"IDs of messages"`
		confirmed
	}
	someRuns struct {
		WorkflowRunIDs []string `json:"workflowRunIds" jsonschema:"IDs of runs"`
		confirmed
	}
	publication struct {
		Destination string            `json:"destination" jsonschema:"URL, or name of a URL group"`
		Body        string            `json:"body,omitempty" jsonschema:"body of the message"`
		Headers     map[string]string `json:"headers,omitempty" jsonschema:"headers of the delivery"`
		Method      string            `json:"method,omitempty" jsonschema:"HTTP method; default POST"`
		Queue       string            `json:"queue,omitempty" jsonschema:"queue to publish through"`
		Delay       string            `json:"delay,omitempty" jsonschema:"delay before the first attempt, such as 10m"`
		Retries     string            `json:"retries,omitempty" jsonschema:"maximum number of retries; default 3"`
		Label       string            `json:"label,omitempty" jsonschema:"label to find the message by"`
		confirmed
	}
)

func (b *toolbox) addWriting() {
	write(b, "restart_runs", "Restart failed workflow runs: those in dlqIds, or those that match the filters.", b.foreseeRestart, b.restart)
	write(b, "retry_messages", "Publish failed messages again: those in dlqIds, or those that match the filters.", b.foreseeRetry, b.retry)
	write(b, "cancel_messages", "Cancel messages that have not ended.",
		func(ctx context.Context, in someMessages) (any, error) { return b.foreseeCancel(ctx, in.MessageIDs) },
		func(ctx context.Context, in someMessages) (any, error) {
			return b.change(ctx, client.Request{Method: http.MethodDelete, Path: pathMessages, Body: map[string]any{"messageIds": in.MessageIDs}})
		})
	write(b, "cancel_runs", "Cancel workflow runs that have not ended.",
		func(ctx context.Context, in someRuns) (any, error) {
			if len(in.WorkflowRunIDs) == 0 {
				return nil, errNothingSelected
			}
			return b.get(ctx, "/v2/workflows/logs", url.Values{"workflowRunId": in.WorkflowRunIDs, "trimBody": {noBodies}})
		},
		func(ctx context.Context, in someRuns) (any, error) {
			return b.change(ctx, client.Request{Method: http.MethodDelete, Path: "/v2/workflows/runs", Body: map[string]any{"workflowRunIds": in.WorkflowRunIDs}})
		})
	write(b, "publish", "Publish a message.",
		func(_ context.Context, in publication) (any, error) {
			request, err := in.request()
			return map[string]any{"request": "POST " + request.Path, "headers": request.Header, "body": in.Body}, err
		},
		func(ctx context.Context, in publication) (any, error) {
			request, err := in.request()
			if err != nil {
				return nil, err
			}
			return b.change(ctx, request)
		})
}

var errNothingSelected = posthaste.Invalidf("nothing is selected: give IDs or a filter")

// write adds a tool that changes something. It shows first what it would do, and does that
// only when the same call is made again with the code that it gave.
func write[In any](b *toolbox, name, description string, foresee, do func(context.Context, In) (any, error)) {
	tool := &mcp.Tool{
		Name:        name,
		Description: description + " The first call changes nothing: it shows what would be done, and a code. Show that to the user, and call again with the same arguments and the code.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true)},
	}
	mcp.AddTool(b.Server, tool, func(ctx context.Context, request *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		call, code, err := callOf(name, request.Params.Arguments)
		if err != nil {
			return nil, nil, err
		}
		if code == "" {
			would, err := foresee(ctx, in)
			if err != nil {
				return nil, nil, err
			}
			return nil, map[string]any{"dryRun": true, "would": would, "confirm": b.prepare(call)}, nil
		}
		if !b.take(code, call) {
			return nil, nil, posthaste.Invalidf("confirm %.20q is not the code of a call with the same arguments in the last ten minutes: call without it first", code)
		}
		done, err := do(ctx, in)
		return nil, done, err
	})
}

// callOf returns what a call is, without its code, and the code.
func callOf(tool string, given json.RawMessage) (call, code string, err error) {
	arguments := map[string]any{}
	if len(given) > 0 {
		if err := json.Unmarshal(given, &arguments); err != nil {
			return "", "", fmt.Errorf("read the arguments: %w", err)
		}
	}
	code, _ = arguments["confirm"].(string)
	delete(arguments, "confirm")
	text, err := json.Marshal(arguments) // by name
	return tool + string(text), code, err
}

// prepare returns a code with which a call may be made once.
func (b *toolbox) prepare(call string) string {
	const valid = 10 * time.Minute
	code, now := rand.Text()[:8], time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for old, p := range b.shown {
		if now.After(p.until) {
			delete(b.shown, old)
		}
	}
	b.shown[code] = preparation{call, now.Add(valid)}
	return code
}

// take reports whether a call was prepared with a code, which is used up.
func (b *toolbox) take(code, call string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.shown[code]
	if !known || p.call != call {
		return false
	}
	delete(b.shown, code)
	return time.Now().Before(p.until)
}

// change sends a request that changes something.
func (b *toolbox) change(ctx context.Context, request client.Request) (any, error) {
	var answer json.RawMessage
	if err := b.api.Do(context.WithoutCancel(ctx), request, &answer); err != nil {
		return nil, err
	}
	return map[string]any{"done": answer}, nil
}

func (b *toolbox) foreseeCancel(ctx context.Context, ids []string) (any, error) {
	if len(ids) == 0 {
		return nil, errNothingSelected
	}
	stories, err := tellStories(ctx, b.api, url.Values{"messageId": ids}, nil, len(ids))
	return map[string]any{"messages": append([]*story{}, stories...)}, err
}

// restartOf returns the request for failed runs.
func (in someFailedRuns) restart() (client.Request, error) {
	query, err := queryOf(in.whichFailedRuns)
	if err == nil && len(query) == 0 {
		err = errNothingSelected
	}
	path := "/v2/workflows/dlq/restart"
	if in.Resume {
		path = "/v2/workflows/dlq/resume"
	}
	return client.Request{Method: http.MethodPost, Path: path, Query: query}, err
}

func (b *toolbox) foreseeRestart(ctx context.Context, in someFailedRuns) (any, error) {
	request, err := in.restart()
	if err != nil {
		return nil, err
	}
	var answer preview
	err = b.api.Do(ctx, request.With("dryRun", "true"), &answer)
	return answer, err
}

func (b *toolbox) restart(ctx context.Context, in someFailedRuns) (any, error) {
	request, err := in.restart()
	if err != nil {
		return nil, err
	}
	return b.sweep(b.api.Sweep(ctx, request), "workflowRuns")
}

// sweep returns how many entries were changed, and the first results.
func (b *toolbox) sweep(pages func(func(client.Page, error) bool), name string) (any, error) {
	const most = 100
	made, failures, first := 0, []failure{}, []json.RawMessage{}
	for page, err := range pages {
		if err != nil {
			return nil, fmt.Errorf("after %d: %w", made, err)
		}
		swept, err := change{made: name}.read(page.Body)
		if err != nil {
			return nil, err
		}
		made += len(swept.made)
		failures = append(failures, swept.Failures...)
		first = append(first, swept.made[:min(len(swept.made), most-len(first))]...)
	}
	return map[string]any{"total": made, name: first, "failures": failures[:min(len(failures), most)]}, nil
}

// selected returns the selection of dead letters, as parameters.
func (in someLetters) selected() (url.Values, error) {
	query, err := queryOf(in.whichLetters)
	if err == nil && len(query) == 0 {
		err = errNothingSelected
	}
	return query, err
}

func (b *toolbox) foreseeRetry(ctx context.Context, in someLetters) (any, error) {
	query, err := in.selected()
	if err != nil {
		return nil, err
	}
	query.Set("trimBody", noBodies)
	query.Set("count", "100")
	return b.get(ctx, "/v2/dlq", query)
}

func (b *toolbox) retry(ctx context.Context, in someLetters) (any, error) {
	query, err := in.selected()
	if err != nil {
		return nil, err
	}
	return b.sweep(b.api.Changes(ctx, client.Request{Method: http.MethodPost, Path: "/v2/dlq/retry", Query: query}), "responses")
}

// request returns the request that publishes.
func (in publication) request() (client.Request, error) {
	request := client.Request{Method: http.MethodPost, Path: "/v2/publish/" + in.Destination, Header: tagged(commonSettings{
		Method: in.Method, Delay: in.Delay, Retries: in.Retries, Label: slices.DeleteFunc([]string{in.Label}, func(label string) bool { return label == "" }),
	})}
	if in.Queue != "" {
		request.Path = below("/v2/enqueue", in.Queue) + "/" + in.Destination
	}
	body := content{}
	for name, value := range in.Headers {
		body.Header = append(body.Header, name+": "+value)
	}
	if err := body.check(); err != nil {
		return request, err
	}
	body.putBytes(&request, []byte(in.Body))
	return request, nil
}
