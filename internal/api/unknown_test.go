package api_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste/internal/api"
)

// foreignQuery are the routes whose query belongs to somebody else, and those that are asked
// by probes, which may add what keeps an answer from being cached.
var foreignQuery = map[string]string{
	"POST /v2/publish/*":                           "the destination's",
	"POST /v2/enqueue/{queue}/*":                   "the destination's",
	"POST /v2/schedules/*":                         "the destination's",
	"POST /v2/trigger/*":                           "the workflow's",
	"ANY /v2/workflows/hooks/{user}/{run}/{event}": "the caller's",
	"POST /v2/wait/{event}":                        "an SDK's, which would end its run",
	"GET /v2/readiness":                            "a probe's",
	"GET /v2/liveness":                             "a probe's",
}

// takesControls are the routes whose query may have controls.
var takesControls = regexp.MustCompile(`/retry|/restart|/resume/\{id|dlq/resume|/runs/\{run\}|/wait/`)

// TestUnknownParameters checks that no route of ours passes over a parameter of the query
// that is not known, nor over a setting where it has no effect (contract, decision 16 and
// U-27).
func TestUnknownParameters(t *testing.T) {
	inWorld(t, func(w *world) {
		of := settle(w)
		before := everything(w)
		paths := map[string]string{}
		for _, row := range strangers {
			paths[row.pattern] = row.path
		}
		for _, pattern := range api.Patterns() {
			if foreignQuery[pattern] != "" {
				continue
			}
			method, path, _ := strings.Cut(pattern, " ")
			if named, ok := paths[pattern]; ok {
				path, _, _ = strings.Cut(of.insert(named), "?")
			}
			if strings.ContainsAny(path, "{*") {
				path = strings.ReplaceAll(path, "{group}", "anns-group")
			}
			unknown := []string{"nonsense", "lable", "labels[]"}
			if !takesControls.MatchString(pattern) {
				unknown = append(unknown, "upstash-label", "Service-Label", "service-nonsense")
			}
			for _, name := range unknown {
				status, body := w.ask(call{method: method, path: path + "?" + name + "=1"}, "full")
				refused := http.StatusBadRequest
				if strings.Contains(path, "/notify/") {
					refused = http.StatusPreconditionFailed // it may be an SDK's, whose run must not wait (decision 31)
				}
				if want := fmt.Sprintf(`parameter \"%s\" is unknown: `, name); status != refused || !strings.Contains(body, want) {
					t.Errorf("%s with %s: %d %s", pattern, name, status, body)
				}
			}
		}
		if diff := cmp.Diff(before, everything(w)); diff != "" {
			t.Errorf("what was refused has changed something (-want +got):\n%s", diff)
		}
	})
}

// TestUnknownMembers checks that no body of ours has members that are passed over (contract,
// decision 16).
func TestUnknownMembers(t *testing.T) {
	tests := map[string]struct{ request, body, want string }{
		"a queue":             {"POST /v2/queues", `{"queueName":"new","paralelism":3}`, `"paralelism" is not known in the body: queueName, parallelism and paused are accepted`},
		"an endpoint":         {"POST /v2/topics/new/endpoints", `{"endpoints":[{"url":"https://example.com","nmae":"x"}]}`, `"nmae" is not known in the body: endpoints is accepted, of each a name and a url`},
		"endpoints":           {"POST /v2/topics/new/endpoints", `{"endpoints":[{"url":"https://example.com"}],"name":"x"}`, `"name" is not known in the body: endpoints is accepted, of each a name and a url`},
		"endpoints to remove": {"DELETE /v2/topics/g/endpoints", `{"endpoints":[{"uri":"https://example.com/g"}]}`, `"uri" is not known in the body: endpoints is accepted, of each a name and a url`},
		"headers of a group":  {"PATCH /v2/topics/g", `{"headers":{},"retries":3}`, `"retries" is not known in the body: headers is accepted`},
		"a pause":             {"POST /v2/queues/q/pause", `{"for":"1h"}`, `parameter "for" is unknown: none is accepted here`},
		"a schedule's pause":  {"POST /v2/schedules/s/pause", `{"until":1}`, `parameter "until" is unknown: none is accepted here`},
		"a pin":               {"POST /v2/flowControl/k/pin?rate=5", `{"paralelism":3}`, `parameter "paralelism" is unknown: parallelism, rate, period are accepted`},
		"a pin given twice":   {"POST /v2/flowControl/k/pin?rate=5&rate=6", ``, `rate is given 2 times, it can have one value`},
		"a search of two":     {"GET /v2/flowControl?search=a&search=b", ``, `search is given 2 times, it can have one value`},
		"two expressions":     {"GET /v2/ticks?cron=@daily&cron=@hourly", ``, `cron is given 2 times, it can have one value`},
		"an unpin":            {"POST /v2/flowControl/k/unpin?paralelism=true", ``, `parameter "paralelism" is unknown: parallelism, rate are accepted`},
		"junk for unpin":      {"POST /v2/flowControl/k/unpin?rate=junk", ``, `rate "junk" is not true or false`},
		"a run's end":         {"DELETE /v2/workflows/runs/r", `{"dryRun":true}`, `"dryRun" is not known in the body: no member is accepted here`},
		"a rotation":          {"POST /v2/keys/rotate", `{"dryRun":true}`, `parameter "dryRun" is unknown: none is accepted here`},
		"a trigger of many":   {"POST /v2/batch/trigger", `[{"destination":"https://example.com","delay":"1h"}]`, `"delay" is not known in the message: destination, headers, body and queue are accepted, settings are headers`},
		"JSON with more":      {"POST /v2/queues", `{"queueName":"new"} x`, `the body is not valid JSON: invalid character 'x' after top-level value`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				furnish(w)
				method, path, _ := strings.Cut(test.request, " ")
				status, body := w.ask(call{method: method, path: path, body: test.body}, "full")
				if status != http.StatusBadRequest || strings.ReplaceAll(body, `\"`, `"`) != `{"error":"`+test.want+`"}`+"\n" {
					t.Errorf("%d %s, want %s", status, body, test.want)
				}
			})
		})
	}
	t.Run("items of a batch", func(t *testing.T) {
		inWorld(t, func(w *world) {
			status, body := w.ask(call{method: "POST", path: "/v2/batch", body: `[{"destination":"https://example.com","delay":"1h"},{"destination":"https://example.com"}]`}, "full")
			if status != http.StatusOK || !strings.HasPrefix(body, `[{"error":"\"delay\" is not known in the message: `) || !strings.Contains(body, `},{"messageId":"msg_`) {
				t.Errorf("%d %s", status, body)
			}
		})
	})
}

// TestUnknownSettings checks that a setting that is misspelt is told of wherever settings are
// read, but not to the SDK of a run, which would take it for the end of its run (contract,
// decision 16 and U-9).
func TestUnknownSettings(t *testing.T) {
	const misspelt = "Upstash-Retry: 3"
	refused := map[string]call{
		"publish":          {method: "POST", path: "/v2/publish/https://example.com", header: misspelt},
		"enqueue":          {method: "POST", path: "/v2/enqueue/q/https://example.com", header: misspelt},
		"schedule":         {method: "POST", path: "/v2/schedules/https://example.com", header: "Upstash-Cron: * * * * *\n" + misspelt},
		"publish and cron": {method: "POST", path: "/v2/publish/https://example.com", header: "Upstash-Cron: * * * * *\n" + misspelt},
		"trigger":          {method: "POST", path: "/v2/trigger/https://example.com", header: misspelt},
		"trigger many":     {method: "POST", path: "/v2/batch/trigger", body: `[{"destination":"https://example.com","headers":{"upstash-retry":"3"}}]`},
		"retry":            {method: "POST", path: "/v2/dlq/retry", header: misspelt},
		"retry one":        {method: "POST", path: dead[:len("/v2/dlq")] + "/retry" + dead[len("/v2/dlq"):], header: misspelt},
		"restart":          {method: "POST", path: "/v2/workflows/dlq/restart?upstash-retry=3"},
		"resume one":       {method: "POST", path: "/v2/workflows/dlq/resume/946684800000-1", header: misspelt},
		"in the query":     {method: "POST", path: "/v2/publish/https://example.com?Upstash-Retry=3"},
	}
	inWorld(t, func(w *world) {
		furnish(w)
		for name, c := range refused {
			if status, body := w.ask(c, "full"); status != http.StatusBadRequest || !strings.HasPrefix(body, `{"error":"Upstash-Retry is not known: `) {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
		batch := `[{"destination":"https://example.com","headers":{"upstash-retry":"3"}},{"destination":"https://example.com","headers":{"upstash-callback-retry":"3"}}]`
		response := w.answer(call{method: "POST", path: "/v2/batch", body: batch}, "full")
		if body := response.Body.String(); response.Code != http.StatusOK || !strings.HasPrefix(body, `[{"error":"Upstash-Retry is not known: `) || !strings.Contains(body, `},{"messageId":`) {
			t.Errorf("a batch: %d %s", response.Code, body)
		}
		if got, want := response.Header().Get("Posthaste-Warning"), "Upstash-Callback-Retry is not known and has no effect"; got != want {
			t.Errorf("a batch is told %q, want %q", got, want)
		}
		item := `[{"destination":"https://example.com/w","method":"POST","headers":{"Upstash-Workflow-RunId":"r","Upstash-Workflow-Init":"true","Upstash-Workflow-Url":"https://example.com/w","Upstash-Later":"x"}}]`
		if status, body := w.ask(call{method: "POST", path: "/v2/batch", body: item}, "full"); status != http.StatusOK || !strings.Contains(body, `"messageId"`) {
			t.Errorf("an item of a run: %d %s", status, body)
		}
		if status, body := w.ask(call{method: "POST", path: "/v2/publish/https://example.com/w", header: "Upstash-Workflow-RunId: s\nUpstash-Workflow-Init: true\nUpstash-Later: x"}, "full"); status != http.StatusOK {
			t.Errorf("the start of a run: %d %s", status, body)
		}
	})
}
