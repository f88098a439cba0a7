package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// injections are what would end a header, or a line of it, were it taken over.
var injections = map[string]string{
	"a line break":         "\r\nX-Forged: yes",
	"a line feed":          "\nX-Forged: yes",
	"a carriage return":    "\rX-Forged: yes",
	"a zero byte":          "\x00",
	"a delete":             "\x7f",
	"an escape":            "\x1b[2J",
	"the end of a request": "\r\n\r\nPOST /forged HTTP/1.1\r\nHost: h\r\n\r\n",
}

// inlets are all the ways by which a text may come to be part of a header that is sent:
// it stands where the braces are, encoded as the place asks for.
var inlets = []struct{ name, method, path, body string }{
	{"value of a forwarded header, in the query", "POST", "/v2/publish/https://example.com?upstash-forward-x-a=v{query}", ""},
	{"name of a forwarded header, in the query", "POST", "/v2/publish/https://example.com?upstash-forward-x{query}=v", ""},
	{"label, in the query", "POST", "/v2/publish/https://example.com?upstash-label=l{query}", ""},
	{"flow-control key, in the query", "POST", "/v2/publish/https://example.com?upstash-flow-control-key=k{query}&upstash-flow-control-value=rate=1", ""},
	{"deduplication id, in the query", "POST", "/v2/publish/https://example.com?upstash-deduplication-id=d{query}", ""},
	{"method, in the query", "POST", "/v2/publish/https://example.com?upstash-method=POST{query}", ""},
	{"callback, in the query", "POST", "/v2/publish/https://example.com?upstash-callback=https://example.com/{query}", ""},
	{"header of a callback, in the query", "POST", "/v2/publish/https://example.com?upstash-callback=https://example.com&upstash-callback-forward-x-a=v{query}", ""},
	{"queue, in the path", "POST", "/v2/enqueue/q{path}/https://example.com", ""},
	{"queue, in JSON", "POST", "/v2/queues", `{"queueName":"q{json}"}`},
	{"group, in the path", "POST", "/v2/topics/g{path}/endpoints", `{"endpoints":[{"url":"https://example.com"}]}`},
	{"endpoint, in JSON", "POST", "/v2/topics/g/endpoints", `{"endpoints":[{"name":"n{json}","url":"https://example.com"}]}`},
	{"address of an endpoint, in JSON", "POST", "/v2/topics/g/endpoints", `{"endpoints":[{"url":"https://example.com/{json}"}]}`},
	{"default header of a group, in JSON", "PATCH", "/v2/topics/g", `{"headers":{"Upstash-Forward-X-A":["v{json}"]}}`},
	{"name of a default header, in JSON", "PATCH", "/v2/topics/g", `{"headers":{"Upstash-Forward-X{json}":["v"]}}`},
	{"header of a batch, in JSON", "POST", "/v2/batch", `[{"destination":"https://example.com","headers":{"Upstash-Forward-X-A":"v{json}"}}]`},
	{"name of a header of a batch, in JSON", "POST", "/v2/batch", `[{"destination":"https://example.com","headers":{"Upstash-Forward-X{json}":"v"}}]`},
	{"queue of a batch, in JSON", "POST", "/v2/batch", `[{"destination":"https://example.com","queue":"q{json}"}]`},
	{"destination of a batch, in JSON", "POST", "/v2/batch", `[{"destination":"https://example.com/{json}"}]`},
	{"schedule, in the query", "POST", "/v2/schedules/https://example.com?upstash-cron=*+*+*+*+*&upstash-schedule-id=s{query}", ""},
	{"header of a schedule, in the query", "POST", "/v2/schedules/https://example.com?upstash-cron=*+*+*+*+*&upstash-forward-x-a=v{query}", ""},
	{"header of a run, in the query", "POST", "/v2/trigger/https://example.com/workflow?upstash-forward-x-a=v{query}", ""},
	{"run, in the query", "POST", "/v2/trigger/https://example.com/workflow?upstash-workflow-runid=r{query}", ""},
}

// through returns what an inlet answers when a text comes through it, and whether that
// refuses it.
func through(w *world, method, path, body, text string) (answer string, refused bool) {
	response := do(w.handler, newInletRequest(method, path, body, text))
	answer = response.Body.String()
	refused = response.Code == http.StatusBadRequest || strings.HasPrefix(path, "/v2/notify/") && response.Code == http.StatusPreconditionFailed
	return answer, refused || strings.HasPrefix(answer, `[{"error":`)
}

// newInletRequest is a request with a text in the place that an inlet has for it.
func newInletRequest(method, path, body, text string) *http.Request {
	inJSON, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always has a form
	}
	body = strings.ReplaceAll(body, "{json}", string(inJSON[1:len(inJSON)-1]))
	path = strings.NewReplacer("{query}", url.QueryEscape(text), "{path}", url.PathEscape(text)).Replace(path)
	return newRequest(method, path, strings.NewReader(body))
}

// TestNothingIsInjected sends each of the injections through each of the inlets: it is
// refused, and nothing of it reaches a destination. What is harmless passes.
func TestNothingIsInjected(t *testing.T) {
	for _, inlet := range inlets {
		t.Run(inlet.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				furnish(w)
				if answer, refused := through(w, inlet.method, inlet.path, inlet.body, "harmless"); refused && inlet.name != "method, in the query" {
					t.Errorf("what is harmless was refused: %s", answer)
				}
				for name, text := range injections {
					if answer, refused := through(w, inlet.method, inlet.path, inlet.body, text); !refused {
						t.Errorf("%s was answered %s", name, answer)
					}
				}
				time.Sleep(time.Minute)
				for _, attempt := range w.destinations.take() {
					if strings.Contains(attempt, "X-Forged") || strings.ContainsAny(attempt, "\r\x00\x7f\x1b") {
						t.Errorf("an injection reached a destination: %q", attempt)
					}
				}
			})
		})
	}
}

// jsonRoutes are the routes that read JSON, and the status by which they refuse it.
var jsonRoutes = []struct {
	method, path string
	refusal      int
}{
	{"POST", "/v2/batch", 400},
	{"POST", "/v2/batch/trigger", 400},
	{"POST", "/v2/queues", 400},
	{"POST", "/v2/topics/g/endpoints", 400},
	{"DELETE", "/v2/topics/g/endpoints", 400},
	{"PATCH", "/v2/topics/g", 400},
	{"DELETE", "/v2/messages", 400},
	{"DELETE", "/v2/dlq", 400},
	{"POST", "/v2/dlq/retry", 400},
	{"DELETE", "/v2/workflows/runs", 400},
	{"DELETE", "/v2/workflows/dlq", 400},
	{"POST", "/v2/workflows/dlq/restart", 400},
	{"POST", "/v2/workflows/dlq/resume", 400},
	{"POST", "/v2/wait/e", 412},
}

// TestHostileJSON has texts that are costly to read, or that readers disagree on. All of
// them are refused, and in a sentence.
func TestHostileJSON(t *testing.T) {
	sequential(t)
	const deep = 1_000_000
	texts := map[string]string{
		"deep arrays":           strings.Repeat("[", deep),
		"deep arrays, closed":   strings.Repeat("[", deep/2) + strings.Repeat("]", deep/2),
		"deep objects":          strings.Repeat(`{"a":`, deep/5),
		"deep within a member":  `{"headers":` + strings.Repeat("[", deep/2) + strings.Repeat("]", deep/2) + `}`,
		"deep within an item":   `[{"destination":` + strings.Repeat("[", deep/2) + strings.Repeat("]", deep/2) + `}]`,
		"an endless number":     strings.Repeat("9", deep),
		"an endless string":     `"` + strings.Repeat("a", deep-2),
		"two values":            `{}{}`,
		"text behind the value": `[] x`,
		"no value":              "\x00",
		"another encoding":      "\xff\xfe{\x00}\x00",
		"a byte order mark":     "\xef\xbb\xbf{}",
		"a comment":             `/* {} */ {}`,
		"a name without quotes": `{a:1}`,
		"NaN":                   `NaN`,
		"a number":              `1`,
		"a string":              `"a"`,
	}
	for _, route := range jsonRoutes {
		t.Run(route.method+" "+route.path, func(t *testing.T) {
			inLargeWorld(t, func(w *world) {
				for name, text := range texts {
					response := do(w.handler, newRequest(route.method, route.path, strings.NewReader(text)))
					if response.Code != route.refusal {
						t.Errorf("%s was answered %d %.200s", name, response.Code, response.Body)
					}
					checkAnswer(t, response)
					if n := response.Body.Len(); n > 1000 {
						t.Errorf("%s was answered with %d bytes", name, n)
					}
				}
			})
		})
	}
}

// TestMalformedUTF8 puts bytes that are no UTF-8 wherever a text goes, and checks that
// every answer, and what is read later, is JSON.
func TestMalformedUTF8(t *testing.T) {
	const broken = "a\xff\xc0\xaf\xed\xa0\x80"
	inWorld(t, func(w *world) {
		furnish(w)
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/v2/publish/https://example.com/fail/500?upstash-retries=0&upstash-label=" + url.QueryEscape(broken), broken},
			{"POST", "/v2/publish/https://example.com?upstash-forward-x-a=" + url.QueryEscape(broken), broken},
			{"POST", "/v2/publish/https://example.com?upstash-flow-control-value=rate%3d1&upstash-flow-control-key=" + url.QueryEscape(broken), broken},
			{"POST", "/v2/publish/https://example.com?upstash-deduplication-id=" + url.QueryEscape(broken), broken},
			{"POST", "/v2/publish/" + url.PathEscape(broken), broken},
			{"POST", "/v2/publish/https://example.com/" + url.PathEscape(broken), broken},
			{"POST", "/v2/enqueue/" + url.PathEscape(broken) + "/https://example.com", broken},
			{"POST", "/v2/batch", `[{"destination":"https://example.com","body":"` + broken + `","headers":{"Upstash-Label":"` + broken + `"}}]`},
			{"POST", "/v2/queues", `{"queueName":"` + broken + `"}`},
			{"GET", "/v2/logs?label=" + url.QueryEscape(broken), ""},
			{"GET", "/v2/messages/" + url.PathEscape(broken), ""},
			{"GET", "/v2/dlq/" + url.PathEscape(broken), ""},
			{"GET", "/v2/flowControl/" + url.PathEscape(broken), ""},
			{"POST", "/v2/notify/" + url.PathEscape(broken), broken},
			{"POST", "/v2/trigger/https://example.com/workflow?upstash-workflow-runid=" + url.QueryEscape(broken), broken},
		} {
			checkAnswer(t, do(w.handler, newRequest(c.method, c.path, strings.NewReader(c.body))))
		}
		time.Sleep(time.Minute)
		for _, path := range []string{"/v2/logs", "/v2/events", "/v2/dlq", "/v2/flowControl", "/v2/queues", "/v2/workflows/logs"} {
			response := w.answer(call{method: "GET", path: path}, "full")
			if response.Code != http.StatusOK {
				t.Errorf("GET %s: %d %s", path, response.Code, response.Body)
			}
			checkAnswer(t, response)
		}
	})
}

// TestManyHeaders has as many headers as a server takes, and more of everything than a
// message can have.
func TestManyHeaders(t *testing.T) {
	inLargeWorld(t, func(w *world) {
		r := newRequest("POST", "/v2/publish/https://example.com", nil)
		for i := range 10_000 {
			r.Header.Set(fmt.Sprint("Upstash-Forward-X-", i), "v")
		}
		if response := do(w.handler, r); response.Code != http.StatusOK {
			t.Errorf("ten thousand headers: %d %.200s", response.Code, response.Body)
		}
		labels := newRequest("POST", "/v2/publish/https://example.com", nil)
		labels.Header.Set("Upstash-Label", strings.Repeat("l,", 100_000))
		if response := do(w.handler, labels); response.Code != http.StatusOK { // all the same one
			t.Errorf("a label a hundred thousand times: %d %.200s", response.Code, response.Body)
		}
		time.Sleep(time.Minute)
		if got := w.destinations.take(); len(got) != 2 {
			t.Errorf("%d deliveries, want 2", len(got))
		}
	})
}
