package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/api"
	"posthaste/internal/workflow"
)

// belongings are ids and names of what somebody has.
type belongings map[string]string

// absent are those that nobody has.
var absent = belongings{
	"message": "msg_1111111111111111111112", "letter": "946684800000-987654", "run": "wfr_absent", "failed": "946684800000-987655",
	"action": "act_absent", "cursor": "915148800000", "queue": "absent-queue", "group": "absent-group", "schedule": "absent-schedule",
	"event": "absent-event", "key": "absent-key",
}

// insert puts them where a text names them in braces.
func (b belongings) insert(text string) string {
	for name, value := range b {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// remove does the opposite, and leaves out the ids that are new with each answer.
func (b belongings) remove(text string) string {
	for name, value := range b {
		text = strings.ReplaceAll(text, value, "{"+name+"}")
	}
	return newID.ReplaceAllString(text, "{new}")
}

var newID = regexp.MustCompile(`msg_\w+`)

// strangers is every way to name what belongs to somebody: in the path, by the pattern
// of the route, and in the query or the body.
var strangers = []struct{ pattern, path, header, body string }{
	{"POST /v2/publish/*", "/v2/publish/{group}", "", "hi"},
	{"POST /v2/enqueue/{queue}/*", "/v2/enqueue/{queue}/{group}", "", "hi"},
	{"GET /v2/messages/{id}", "/v2/messages/{message}", "", ""},
	{"DELETE /v2/messages/{id}", "/v2/messages/{message}", "", ""},
	{"POST /v2/messages/{id}/retry", "/v2/messages/{message}/retry", "", ""},
	{"DELETE /v2/messages", "/v2/messages?messageIds={message}", "", ""},
	{"DELETE /v2/messages", "/v2/messages", "", `{"messageIds":["{message}"]}`},
	{"DELETE /v2/messages", "/v2/messages?queueName={queue}", "", ""},
	{"GET /v2/queues/{queue}", "/v2/queues/{queue}", "", ""},
	{"DELETE /v2/queues/{queue}", "/v2/queues/{queue}", "", ""},
	{"POST /v2/queues/{queue}/pause", "/v2/queues/{queue}/pause", "", ""},
	{"POST /v2/queues/{queue}/resume", "/v2/queues/{queue}/resume", "", ""},
	{"GET /v2/topics/{group}", "/v2/topics/{group}", "", ""},
	{"PATCH /v2/topics/{group}", "/v2/topics/{group}", "", `{"headers":{}}`},
	{"DELETE /v2/topics/{group}", "/v2/topics/{group}", "", ""},
	{"DELETE /v2/topics/{group}/endpoints", "/v2/topics/{group}/endpoints", "", `{"endpoints":[{"url":"https://example.com/g"}]}`},
	{"GET /v2/schedules/{schedule}", "/v2/schedules/{schedule}", "", ""},
	{"DELETE /v2/schedules/{schedule}", "/v2/schedules/{schedule}", "", ""},
	{"POST /v2/schedules/{schedule}/pause", "/v2/schedules/{schedule}/pause", "", ""},
	{"POST /v2/schedules/{schedule}/resume", "/v2/schedules/{schedule}/resume", "", ""},
	{"PATCH /v2/schedules/{schedule}/pause", "/v2/schedules/{schedule}/pause", "", ""},
	{"PATCH /v2/schedules/{schedule}/resume", "/v2/schedules/{schedule}/resume", "", ""},
	{"GET /v2/dlq", "/v2/dlq?dlqIds={letter}", "", ""},
	{"GET /v2/dlq/{id}", "/v2/dlq/{letter}", "", ""},
	{"DELETE /v2/dlq/{id}", "/v2/dlq/{letter}", "", ""},
	{"DELETE /v2/dlq", "/v2/dlq?dlqIds={letter}", "", ""},
	{"POST /v2/dlq/retry/{id}", "/v2/dlq/retry/{letter}", "", ""},
	{"POST /v2/dlq/retry", "/v2/dlq/retry?dlqIds={letter}", "", ""},
	{"GET /v2/bulkActions/{id}", "/v2/bulkActions/{action}", "", ""},
	{"DELETE /v2/bulkActions/{id}", "/v2/bulkActions/{action}", "", ""},
	{"GET /v2/logs", "/v2/logs?messageId={message}", "", ""},
	{"GET /v2/logs", "/v2/logs?cursor={cursor}&order=earliestFirst", "", ""},
	{"GET /v2/logs", "/v2/logs?cursor={cursor}", "", ""},
	{"GET /v2/events", "/v2/events?cursor={cursor}", "", ""},
	{"GET /v2/flowControl/*", "/v2/flowControl/{key}", "", ""},
	{"DELETE /v2/flowControl/*", "/v2/flowControl/{key}", "", ""},
	{"POST /v2/flowControl/*/pause", "/v2/flowControl/{key}/pause", "", ""},
	{"POST /v2/flowControl/*/resume", "/v2/flowControl/{key}/resume", "", ""},
	{"POST /v2/flowControl/*/pin", "/v2/flowControl/{key}/pin?parallelism=1", "", ""},
	{"POST /v2/flowControl/*/unpin", "/v2/flowControl/{key}/unpin?rate=true", "", ""},
	{"POST /v2/flowControl/*/reset", "/v2/flowControl/{key}/reset", "", ""},
	{"POST /v2/flowControl/*/resetRate", "/v2/flowControl/{key}/resetRate", "", ""},
	{"GET /v2/workflows/runs/{run}", "/v2/workflows/runs/{run}", "", ""},
	{"DELETE /v2/workflows/runs/{run}", "/v2/workflows/runs/{run}", "", ""},
	{"DELETE /v2/workflows/runs", "/v2/workflows/runs?workflowRunIds={run}", "", ""},
	{"GET /v2/workflows/bulkActions/{id}", "/v2/workflows/bulkActions/{action}", "", ""},
	{"DELETE /v2/workflows/bulkActions/{id}", "/v2/workflows/bulkActions/{action}", "", ""},
	{"POST /v2/wait/{event}", "/v2/wait/{event}", "", `{"url":"https://a.example/workflow","timeout":"1h","step":{"stepId":1,"stepName":"w","stepType":"Wait","concurrent":1}}`},
	{"GET /v2/waiters/{event}", "/v2/waiters/{event}", "", ""},
	{"POST /v2/notify/{event}", "/v2/notify/{event}", "", "hi"},
	{"POST /v2/notify/{run}/{event}", "/v2/notify/{run}/{event}", "", "hi"},
	{"GET /v2/workflows/dlq/{id}", "/v2/workflows/dlq/{failed}", "", ""},
	{"DELETE /v2/workflows/dlq/{id}", "/v2/workflows/dlq/{failed}", "", ""},
	{"DELETE /v2/workflows/dlq", "/v2/workflows/dlq?dlqIds={failed}", "", ""},
	{"POST /v2/workflows/dlq/restart/{id}", "/v2/workflows/dlq/restart/{failed}", "", ""},
	{"POST /v2/workflows/dlq/restart", "/v2/workflows/dlq/restart?dlqIds={failed}", "", ""},
	{"POST /v2/workflows/dlq/resume/{id}", "/v2/workflows/dlq/resume/{failed}", "", ""},
	{"POST /v2/workflows/dlq/resume", "/v2/workflows/dlq/resume?dlqIds={failed}", "", ""},
	{"POST /v2/workflows/dlq/callback/{id}", "/v2/workflows/dlq/callback/{failed}", "", ""},
	{"DELETE /v2/workflows/dlq/callback/{id}", "/v2/workflows/dlq/callback/{failed}", "", ""},
	{"GET /v2/workflows/logs", "/v2/workflows/logs?workflowRunId={run}", "", ""},
	{"GET /v2/workflows/events", "/v2/workflows/events?workflowRunId={run}", "", ""},
}

// unowned are the routes that no row of strangers is about: what they name belongs to
// nobody, or may be named by anybody.
var unowned = map[string]string{
	"POST /v2/schedules/*":                         "makes a schedule of its own",
	"POST /v2/trigger/*":                           "makes a run of its own",
	"POST /v2/topics/{group}/endpoints":            "makes a group of its own",
	"ANY /v2/workflows/hooks/{user}/{run}/{event}": "whoever knows the URL may call it",
}

// noHooks is an api.Workflows that must not be asked for webhooks.
type noHooks struct{ api.Workflows }

// TestHooksThatNobodyCanHave calls what no store can look for: it is not looked for.
func TestHooksThatNobodyCanHave(t *testing.T) {
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Workflows = noHooks{} })
	for _, path := range []string{
		"%00/run/event", "%ff/run/event", "ann/%00/event", "ann/%ff/event", "ann/run/%00", "ann/run/%ff",
		strings.Repeat("u", 256) + "/run/event",
	} {
		if got := do(handler, newRequest("POST", "/v2/workflows/hooks/"+path, nil)).Code; got != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, got)
		}
	}
}

// hookCalls is an api.Workflows that has every webhook and notes the calls of them.
type hookCalls struct {
	api.Workflows
	events []string
}

func (*hookCalls) FindHook(context.Context, workflow.Hook) error { return nil }

func (h *hookCalls) CallHook(_ context.Context, _ workflow.Hook, event []byte) error {
	h.events = append(h.events, string(event))
	return nil
}

// TestPreflightIsNoCallOfAHook checks that a browser's question before a request is answered
// so that the request follows, and is not taken for it (contract, workflows 4.7).
func TestPreflightIsNoCallOfAHook(t *testing.T) {
	calls := &hookCalls{}
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Workflows = calls })
	ask := func(method, asked string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/v2/workflows/hooks/ann/run/event", nil)
		r.Header.Set("Origin", "https://app.example")
		r.Header.Set("Access-Control-Request-Method", asked)
		r.Header.Set("Access-Control-Request-Headers", "content-type")
		return do(handler, r)
	}
	preflight := ask(http.MethodOptions, "POST")
	allowed := preflight.Header()
	if preflight.Code != http.StatusNoContent || allowed.Get("Access-Control-Allow-Origin") != "*" ||
		allowed.Get("Access-Control-Allow-Headers") != "content-type" || !strings.Contains(allowed.Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("the preflight is answered %d with %v", preflight.Code, allowed)
	}
	if len(calls.events) > 0 {
		t.Fatalf("the preflight was taken for a call: %s", calls.events)
	}
	if call := ask(http.MethodPost, ""); call.Code != http.StatusOK || call.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("the call is answered %d with %v", call.Code, call.Header())
	}
	if plain := ask(http.MethodOptions, ""); plain.Code != http.StatusOK {
		t.Errorf("OPTIONS that asks for nothing is answered %d", plain.Code)
	}
	if len(calls.events) != 2 {
		t.Errorf("%d calls, want 2: %s", len(calls.events), calls.events)
	}
}

// TestEveryNameIsTried checks that strangers has a row for each route that names
// something in its path.
func TestEveryNameIsTried(t *testing.T) {
	tried := make(map[string]bool)
	for _, row := range strangers {
		tried[row.pattern] = true
	}
	for _, pattern := range api.Patterns() {
		if strings.ContainsAny(pattern, "{*") && !tried[pattern] && unowned[pattern] == "" {
			t.Errorf("%s names something, and no stranger tries it", pattern)
		}
	}
}

// TestWhatIsOthersIsAbsent checks that to name what another user has is answered as to
// name what nobody has, and changes nothing of it (contract, U-67).
func TestWhatIsOthersIsAbsent(t *testing.T) {
	inWorld(t, func(w *world) {
		anns := settle(w)
		before := everything(w)
		for _, row := range strangers {
			answers := make([]string, 2)
			for i, b := range []belongings{anns, absent} {
				method, _, _ := strings.Cut(row.pattern, " ")
				response := w.answer(call{method: method, path: b.insert(row.path), header: row.header, body: b.insert(row.body)}, "other")
				answers[i] = fmt.Sprint(response.Code, " ", b.remove(response.Body.String()))
			}
			if answers[0] != answers[1] {
				t.Errorf("%s %s %s\nof another: %snobody's:   %s", row.pattern, row.path, row.body, answers[0], answers[1])
			}
		}
		w.destinations.take()
		if diff := cmp.Diff(before, everything(w)); diff != "" {
			t.Errorf("a stranger changed what is ann's (-before +after):\n%s", diff)
		}
	})
}

// settle gives ann one of everything, and returns what it is called.
func settle(w *world) belongings {
	b := belongings{"queue": "anns-queue", "group": "anns-group", "schedule": "anns-schedule", "event": "anns-event", "key": "anns-key"}
	var receipt struct{ MessageID, WorkflowRunID, ActionID string }
	w.do("POST", "/v2/topics/anns-group/endpoints", `{"endpoints":[{"url":"https://example.com/g"}]}`, nil)
	w.do("POST", "/v2/queues", `{"queueName":"anns-queue","paused":true}`, nil)
	w.do("POST", "/v2/schedules/https://example.com", "", nil, "Upstash-Cron: 0 0 1 1 *", "Upstash-Schedule-Id: anns-schedule")
	w.do("POST", "/v2/enqueue/anns-queue/https://example.com/1", "hi", &receipt,
		"Upstash-Flow-Control-Key: anns-key", "Upstash-Flow-Control-Value: rate=1")
	b["message"] = receipt.MessageID
	w.do("POST", "/v2/publish/https://example.com/fail/500", "hi", nil, "Upstash-Retries: 0")
	w.do("POST", "/v2/trigger/https://example.com/workflow", "{}", &receipt, "Upstash-Delay: 1h")
	b["run"] = receipt.WorkflowRunID
	w.do("POST", "/v2/trigger/https://example.com/fail/500", "{}", nil, "Upstash-Retries: 0")
	w.do("DELETE", "/v2/messages?async=true&label=none", "", &receipt)
	b["action"] = receipt.ActionID
	time.Sleep(time.Second)
	synctest.Wait()
	var page struct {
		Messages []struct{ DLQID string }
		Cursor   string
	}
	w.do("GET", "/v2/dlq", "", &page)
	b["letter"] = page.Messages[0].DLQID
	w.do("GET", "/v2/workflows/dlq", "", &page)
	b["failed"] = page.Messages[0].DLQID
	w.do("GET", "/v2/logs?count=1", "", &page)
	b["cursor"] = page.Cursor
	w.destinations.take()
	return b
}

// everything returns all that ann can read of hers.
func everything(w *world) map[string]string {
	all := make(map[string]string)
	for _, path := range []string{
		"/v2/queues", "/v2/topics", "/v2/schedules", "/v2/dlq", "/v2/logs", "/v2/flowControl", "/v2/bulkActions",
		"/v2/workflows/dlq", "/v2/workflows/logs", "/v2/workflows/events", "/v2/keys",
	} {
		status, body := w.ask(call{method: "GET", path: path}, "full")
		if status != http.StatusOK {
			w.Errorf("GET %s: %d %s", path, status, body)
		}
		all[path] = body
	}
	return all
}
