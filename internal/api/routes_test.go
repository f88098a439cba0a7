package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// call is a request of the message API.
type call struct {
	method, path string
	header, body string
	writes       bool // or shows a secret: a token that may only read is refused
}

const dead = "/v2/dlq/946684800000-1"

// surface is every row of the overview in section 2.1 of the contract for
// messages, and what this server adds. What the rows name is there: see furnish.
var surface = []call{
	{"POST", "/v2/publish/https://example.com", "", "hi", true},
	{"POST", "/v2/publish/g", "", "hi", true},
	{"POST", "/v2/enqueue/q/https://example.com", "", "hi", true},
	{"POST", "/v2/batch", "", `[{"destination":"https://example.com"}]`, true},
	{"GET", "/v2/messages/{message1}", "", "", false},
	{"DELETE", "/v2/messages/{message1}", "", "", true},
	{"DELETE", "/v2/messages", "", "", true},
	{"DELETE", "/v2/messages", "", `{"messageIds":["{message1}"]}`, true},
	{"DELETE", "/v2/messages?async=true", "", "", true},
	{"POST", "/v2/queues", "", `{"queueName":"q"}`, true},
	{"GET", "/v2/queues", "", "", false},
	{"GET", "/v2/queues/q", "", "", false},
	{"DELETE", "/v2/queues/q", "", "", true},
	{"POST", "/v2/queues/q/pause", "", "", true},
	{"POST", "/v2/queues/q/resume", "", "", true},
	{"POST", "/v2/schedules/https://example.com", "Upstash-Cron: * * * * *", "", true},
	{"POST", "/v2/schedules/https://example.com", "Upstash-Cron: * * * * *\nUpstash-Deduplication-Id: d", "", true},
	{"GET", "/v2/schedules", "", "", false},
	{"GET", "/v2/schedules/s", "", "", false},
	{"DELETE", "/v2/schedules/s", "", "", true},
	{"PATCH", "/v2/schedules/s/pause", "", "", true},
	{"POST", "/v2/schedules/s/pause", "", "", true},
	{"PATCH", "/v2/schedules/s/resume", "", "", true},
	{"POST", "/v2/schedules/s/resume", "", "", true},
	{"GET", "/v2/topics", "", "", false},
	{"GET", "/v2/topics/g", "", "", false},
	{"PATCH", "/v2/topics/g", "", `{"headers":{}}`, true},
	{"DELETE", "/v2/topics/g", "", "", true},
	{"POST", "/v2/topics/g/endpoints", "", `{"endpoints":[{"url":"https://example.com"}]}`, true},
	{"DELETE", "/v2/topics/g/endpoints", "", `{"endpoints":[{"url":"https://example.com"}]}`, true},
	{"GET", "/v2/dlq", "", "", false},
	{"GET", dead, "", "", false},
	{"DELETE", dead, "", "", true},
	{"DELETE", "/v2/dlq", "", "", true},
	{"DELETE", "/v2/dlq?dlqIds=946684800000-1", "", "", true},
	{"DELETE", "/v2/dlq?async=true", "", "", true},
	{"POST", "/v2/dlq/retry/946684800000-1", "", "", true},
	{"POST", "/v2/dlq/retry", "", "", true},
	{"POST", "/v2/dlq/retry?dlqIds=946684800000-1", "", "", true},
	{"POST", "/v2/dlq/retry?async=true", "", "", true},
	{"GET", "/v2/logs", "", "", false},
	{"GET", "/v2/events", "", "", false},
	{"GET", "/v2/flowControl", "", "", false},
	{"GET", "/v2/flowControl?search=k", "", "", false},
	{"GET", "/v2/flowControl/k", "", "", false},
	{"POST", "/v2/flowControl/k/pause", "", "", true},
	{"POST", "/v2/flowControl/k/resume", "", "", true},
	{"POST", "/v2/flowControl/k/pin?parallelism=1", "", "", true},
	{"POST", "/v2/flowControl/k/pin?rate=1", "", "", true},
	{"POST", "/v2/flowControl/k/unpin?rate=true", "", "", true},
	{"POST", "/v2/flowControl/k/resetRate", "", "", true},
	{"POST", "/v2/flowControl/k/reset", "", "", true},
	{"DELETE", "/v2/flowControl/unused", "", "", true},
	{"GET", "/v2/globalParallelism", "", "", false},
	{"GET", "/v2/server", "", "", false},
	{"GET", "/v2/bulkActions", "", "", false},
	{"GET", "/v2/bulkActions/act_x", "", "", false},
	{"DELETE", "/v2/bulkActions/act_x", "", "", true},
}

// keys are the routes of signing keys, which do not need the engine.
var keys = []call{
	{"GET", "/v2/keys", "", "", true},
	{"POST", "/v2/keys/rotate", "", "", true},
	{"POST", "/v2/rotate", "", "", true},
}

// furnish makes what the rows of the surface name: a group, a queue, a schedule, a
// message that waits under a flow-control key, and a key that none waits under.
func furnish(w *world) {
	for _, text := range []string{
		"POST /v2/topics/g/endpoints HTTP/1.1\n\n{\"endpoints\":[{\"url\":\"https://example.com/g\"}]}",
		"POST /v2/queues HTTP/1.1\n\n{\"queueName\":\"q\"}",
		"POST /v2/schedules/https://example.com HTTP/1.1\nUpstash-Cron: 0 0 1 1 *\nUpstash-Schedule-Id: s",
		"POST /v2/flowControl/unused/pause HTTP/1.1",
		"POST /v2/publish/https://example.com/1 HTTP/1.1\nUpstash-Delay: 1h\nUpstash-Flow-Control-Key: k\nUpstash-Flow-Control-Value: rate=1",
	} {
		response := w.send([]byte(text))
		if response.Code != http.StatusOK {
			w.Fatalf("%s\n%d %s", text, response.Code, response.Body)
		}
		w.names.remove(response.Body.Bytes())
	}
}

// ask sends a call with a token, "" for none.
func (w *world) ask(c call, token string) (status int, body string) {
	response := w.answer(c, token)
	return response.Code, response.Body.String()
}

func (w *world) answer(c call, token string) *httptest.ResponseRecorder {
	text := c.method + " " + c.path + " HTTP/1.1"
	if token != "" {
		text += "\nAuthorization: Bearer " + token
	}
	if c.header != "" {
		text += "\n" + c.header
	}
	r := readRequest(w.T, w.names.insert([]byte(text+"\n\n"+c.body)))
	defer synctest.Wait()
	return do(w.handler, r)
}

// TestSurface checks that each route is there, that it wants a token, and which
// (contract, messages 2.1, 8 and decision 24).
func TestSurface(t *testing.T) {
	for _, c := range append(surface, keys...) {
		t.Run(strings.TrimSpace(c.method+" "+c.path+" "+c.header), func(t *testing.T) {
			inWorld(t, func(w *world) {
				furnish(w)
				if status, body := w.ask(c, ""); status != http.StatusUnauthorized {
					t.Errorf("without a token: %d %s", status, body)
				}
				status, body := w.ask(c, "reader")
				if (status == http.StatusForbidden) != c.writes {
					t.Errorf("with a token that may only read: %d %s", status, body)
				}
				switch status, body := w.ask(c, "full"); {
				case status/100 == 2:
				case status == http.StatusNotFound && strings.Contains(body, "not known"): // a dead letter, a bulk action
				default:
					t.Errorf("with a full token: %d %s", status, body)
				}
			})
		})
	}
}

// refusals are calls that end with an error, one of each status.
var refusals = []struct {
	status int
	token  string
	call   call
}{
	{http.StatusBadRequest, "full", call{method: "POST", path: "/v2/publish/"}},
	{http.StatusUnauthorized, "stolen", call{method: "GET", path: "/v2/queues"}},
	{http.StatusForbidden, "reader", call{method: "POST", path: "/v2/queues"}},
	{http.StatusNotFound, "full", call{method: "GET", path: "/v2/queues/missing"}},
	{http.StatusMethodNotAllowed, "full", call{method: "PUT", path: "/v2/queues"}},
	{http.StatusPreconditionFailed, "full", call{method: "POST", path: "/v2/publish/https://example.com", header: "Upstash-Retries: 11"}},
	{http.StatusRequestEntityTooLarge, "full", call{method: "POST", path: "/v2/publish/https://example.com", body: strings.Repeat("x", 201)}},
}

// TestAnswersAreJSON checks what holds for every answer, whether it grants or
// refuses (contract, messages 0.1, 0.2 and 0.3, decision 14).
func TestAnswersAreJSON(t *testing.T) {
	for _, c := range slices.Concat(surface, keys) {
		t.Run(strings.TrimSpace(c.method+" "+c.path+" "+c.header), func(t *testing.T) {
			inWorld(t, func(w *world) {
				furnish(w)
				checkAnswer(t, w.answer(c, "full"))
			})
		})
	}
	for _, r := range refusals {
		t.Run(http.StatusText(r.status), func(t *testing.T) {
			inWorld(t, func(w *world) {
				response := w.answer(r.call, r.token)
				if response.Code != r.status {
					t.Errorf("answered %d, want %d", response.Code, r.status)
				}
				checkAnswer(t, response)
			})
		})
	}
}

// checkAnswer fails unless a response is JSON that says so, or empty; tells an
// error by one member that is a sentence; and leads nowhere else.
func checkAnswer(t *testing.T, response *httptest.ResponseRecorder) {
	t.Helper()
	status, body := response.Code, response.Body.Bytes()
	if status/100 == 3 || response.Header().Get("Location") != "" {
		t.Errorf("%d leads to %q", status, response.Header().Get("Location"))
	}
	if len(body) > 0 && (response.Header().Get("Content-Type") != "application/json" || !json.Valid(body)) {
		t.Errorf("%d is no JSON: %s", status, body)
	}
	if status < 400 {
		return
	}
	var fields map[string]string
	if err := json.Unmarshal(body, &fields); err != nil || len(fields) != 1 || fields["error"] == "" {
		t.Errorf("%d has more or less than a sentence: %s", status, body)
	}
}

// TestSurfaceWhenTheStoreIsClosed checks that no route takes a failure for an
// answer.
func TestSurfaceWhenTheStoreIsClosed(t *testing.T) {
	inWorld(t, func(w *world) {
		furnish(w)
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range surface {
			if c.path == "/v2/globalParallelism" || c.path == "/v2/server" {
				continue // it is known in memory
			}
			status, body := w.ask(c, "full")
			if status != http.StatusServiceUnavailable || body != `{"error":"the server is shutting down, try again"}`+"\n" {
				t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
			}
		}
	})
}

// TestRoutesOfOthers checks that what belongs to a user does not exist for another
// one, and that what is empty is an array (contract, U-67 and messages 0.10).
func TestRoutesOfOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		furnish(w)
		for _, c := range surface {
			if c.method != "GET" {
				continue
			}
			status, body := w.ask(c, "other")
			empty := body == "[]\n" || body == "{\"messages\":[]}\n" || body == "{\"events\":[]}\n" || strings.Contains(body, "parallelismCount") || c.path == "/v2/server"
			if status != http.StatusNotFound && !(status == http.StatusOK && empty) {
				t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
			}
		}
		if status, body := w.ask(call{method: "DELETE", path: "/v2/messages"}, "other"); body != "{\"cancelled\":0}\n" {
			t.Errorf("cancelled the messages of another: %d %s", status, body)
		}
	})
}
