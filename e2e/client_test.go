package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"posthaste"
)

const (
	// devToken is the token of the default user of development servers.
	devToken = "eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0="
	// testToken is {"UserID":"tester","Password":"secret"}.
	testToken = "eyJVc2VySUQiOiJ0ZXN0ZXIiLCJQYXNzd29yZCI6InNlY3JldCJ9"
)

// client calls the API of one server as one user. What it sends and receives has to be as
// the API is described.
type client struct {
	base  string
	token string
	http  *http.Client
}

func newClient(base, token string) *client {
	const connections = 64
	return &client{base: base, token: token, http: &http.Client{
		Transport: &describedTransport{&http.Transport{MaxIdleConnsPerHost: connections}, undescribed.add, ofClients},
	}}
}

// as returns a client of the same server for another user.
func (c *client) as(token string) *client {
	return &client{base: c.base, token: token, http: c.http}
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// isOfDisk reports whether the server says that its disk does not answer, as that of a busy
// machine may do for seconds.
func (e *statusError) isOfDisk() bool {
	return e.status == http.StatusServiceUnavailable && strings.Contains(e.text, "the disk of the server does not answer")
}

// receipt is what a publisher is told of a message.
type receipt struct {
	MessageID string `json:"messageId"`
	URL       string `json:"url"` // of the endpoint, for messages to a URL group
}

// publish publishes a body to a URL and returns the id of the message.
func (c *client) publish(ctx context.Context, url string, header map[string]string, body string) (string, error) {
	var answer receipt
	err := c.call(ctx, http.MethodPost, "/v2/publish/"+url, header, body, &answer)
	return answer.MessageID, err
}

// enqueue is publish through a queue.
func (c *client) enqueue(ctx context.Context, queue, url string, header map[string]string, body string) (string, error) {
	var answer receipt
	err := c.call(ctx, http.MethodPost, "/v2/enqueue/"+queue+"/"+url, header, body, &answer)
	return answer.MessageID, err
}

// publishToGroup publishes a body to the endpoints of a URL group.
func (c *client) publishToGroup(ctx context.Context, group string, header map[string]string, body string) ([]receipt, error) {
	var answer []receipt
	err := c.call(ctx, http.MethodPost, "/v2/publish/"+group, header, body, &answer)
	return answer, err
}

// putQueue makes a queue.
func (c *client) putQueue(ctx context.Context, name string, parallelism int) error {
	body := fmt.Sprintf(`{"queueName":%q,"parallelism":%d}`, name, parallelism)
	return c.call(ctx, http.MethodPost, "/v2/queues", nil, body, nil)
}

// addEndpoints makes a URL group.
func (c *client) addEndpoints(ctx context.Context, group string, urls ...string) error {
	endpoints := make([]map[string]string, len(urls))
	for i, url := range urls {
		endpoints[i] = map[string]string{"url": url}
	}
	body, err := json.Marshal(map[string]any{"endpoints": endpoints})
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, "/v2/topics/"+group+"/endpoints", nil, string(body), nil)
}

// cancel cancels a message.
func (c *client) cancel(ctx context.Context, messageID string) error {
	return c.call(ctx, http.MethodDelete, "/v2/messages/"+messageID, nil, "", nil)
}

// logEntry is an entry of the log, as much of it as the tests compare.
type logEntry struct {
	Time      int64           `json:"time"` // Unix milliseconds
	MessageID string          `json:"messageId"`
	State     posthaste.State `json:"state"`
	URL       string          `json:"url"`
	Error     string          `json:"error"`
}

// logPage is a page of the log.
type logPage struct {
	Cursor string     `json:"cursor"`
	Events []logEntry `json:"events"`
}

// logs returns the page of the log that the parameters ask for.
func (c *client) logs(ctx context.Context, query url.Values) (logPage, error) {
	var page logPage
	err := c.call(ctx, http.MethodGet, "/v2/logs?"+query.Encode(), nil, "", &page)
	return page, err
}

// allLogs returns the whole log, oldest entry first.
func (c *client) allLogs(t *testing.T) []logEntry {
	t.Helper()
	entries, err := c.walk(t.Context(), url.Values{"order": {"earliestFirst"}})
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	return entries
}

// onTheirWay returns how many messages have not ended.
func (c *client) onTheirWay(t *testing.T) int {
	t.Helper()
	count := 0
	for _, entry := range c.allLogs(t) {
		switch entry.State {
		case posthaste.StateCreated:
			count++
		case posthaste.StateDelivered, posthaste.StateFailed, posthaste.StateCancelled:
			count--
		}
	}
	return count
}

// walk follows the cursors of a query to its end and returns all entries.
func (c *client) walk(ctx context.Context, query url.Values) ([]logEntry, error) {
	var entries []logEntry
	query = cloneValues(query)
	for {
		page, err := c.logs(ctx, query)
		if err != nil {
			return nil, err
		}
		entries = append(entries, page.Events...)
		if page.Cursor == "" {
			return entries, nil
		}
		query.Set("cursor", page.Cursor)
	}
}

// keys returns the signing keys of the user, the current and the next one.
func (c *client) keys(ctx context.Context) (current, next string, err error) {
	var answer struct{ Current, Next string }
	err = c.call(ctx, http.MethodGet, "/v2/keys", nil, "", &answer)
	return answer.Current, answer.Next, err
}

// call sends a request and decodes the answer into answer unless that is nil.
// An answer that is no success is a *statusError.
func (c *client) call(ctx context.Context, method, target string, header map[string]string, body string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.base+target, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return &statusError{response.StatusCode, string(text)}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
