package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"posthaste/internal/api"
	"posthaste/internal/engine"
)

// TestLimitsNameTheirHeaders checks that a refusal of a setting names the header or
// the parameter that gave it, as it was sent (contract, U-82).
func TestLimitsNameTheirHeaders(t *testing.T) {
	const publish, schedule, retry = "POST /v2/publish/https://example.com", "POST /v2/schedules/https://example.com", "POST /v2/dlq/retry/{letter1}"
	tests := []struct{ name, line, header, body, want string }{
		{"retries", publish, "Upstash-Retries: 11", "", `Upstash-Retries "11" is over the limit of 10`},
		{"in the other family", publish, "Service-Retries: 11", "", `Service-Retries "11" is over the limit of 10`},
		{"in the query", publish + "?upstash-retries=11", "", "", `Upstash-Retries "11" is over the limit of 10`},
		{"through a queue", "POST /v2/enqueue/q/https://example.com", "Upstash-Retries: 11", "", `Upstash-Retries "11" is over the limit of 10`},
		{"delay", publish, "Upstash-Delay: 2d", "", `Upstash-Delay "2d" is further ahead than the limit of 1d`},
		{"time of the start", publish, "Upstash-Not-Before: 4000000000", "", `Upstash-Not-Before "4000000000" is further ahead than the limit of 1d`},
		{"time beats delay", publish, "Upstash-Delay: 1s\nUpstash-Not-Before: 4000000000", "", `Upstash-Not-Before "4000000000" is further ahead than the limit of 1d`},
		{"of a schedule", schedule, "Upstash-Cron: * * * * *\nUpstash-Retries: 11", "", `Upstash-Retries "11" is over the limit of 10`},
		{"of a retry", retry, "Upstash-Retries: 11", "", `Upstash-Retries "11" is over the limit of 10`},
		{"of a callback", publish, "Upstash-Callback: https://c.example\nUpstash-Callback-Retries: 11", "", `Upstash-Callback-Retries "11" is over the limit of 10`},
		{"delay of a callback", publish, "Upstash-Callback: https://c.example\nUpstash-Callback-Delay: 2d", "", `Upstash-Callback-Delay "2d" is further ahead than the limit of 1d`},
		{"of a failure callback", publish, "Service-Failure-Callback: https://c.example\nService-Failure-Callback-Retries: 11", "", `Service-Failure-Callback-Retries "11" is over the limit of 10`},
		{"of the callback of a schedule", schedule, "Upstash-Cron: * * * * *\nUpstash-Callback: https://c.example\nUpstash-Callback-Retries: 11", "", `Upstash-Callback-Retries "11" is over the limit of 10`},
		{"of the failure callback of a trigger", "POST /v2/trigger/https://example.com", "Upstash-Failure-Callback: https://c.example\nUpstash-Failure-Callback-Retries: 11", "", `Upstash-Failure-Callback-Retries "11" is over the limit of 10`},
		{"from a group's defaults", "POST /v2/publish/patient", "", "", `retries 11 is over the limit of 10`},
	}
	inWorld(t, func(w *world) {
		for _, text := range []string{
			"POST /v2/topics/patient/endpoints HTTP/1.1\n\n{\"endpoints\":[{\"url\":\"https://example.com\"}]}",
			"PATCH /v2/topics/patient HTTP/1.1\n\n{\"headers\":{\"Upstash-Retries\":[\"11\"]}}",
			publish + "/fail/500 HTTP/1.1\nUpstash-Retries: 0",
		} {
			if response := w.send([]byte(text)); response.Code != http.StatusOK {
				t.Fatalf("%s\n%d %s", text, response.Code, response.Body)
			}
		}
		w.wait("1s")
		w.names.remove(w.send([]byte("GET /v2/dlq HTTP/1.1")).Body.Bytes())
		for _, test := range tests {
			method, path, _ := strings.Cut(test.line, " ")
			status, body := w.ask(call{method: method, path: path, header: test.header, body: test.body}, "full")
			if want := errorJSON(test.want); status != http.StatusPreconditionFailed || body != want {
				t.Errorf("%s: %d %s, want 412 %s", test.name, status, body, want)
			}
		}
	})
}

// errorJSON returns the body of an error.
func errorJSON(sentence string) string {
	return `{"error":"` + strings.ReplaceAll(sentence, `"`, `\"`) + "\"}\n"
}

// TestTimeoutLimitNamesItsHeader is apart because that limit is no limit of the world
// of the other tests.
func TestTimeoutLimitNamesItsHeader(t *testing.T) {
	limits := engine.Limits{Timeout: time.Hour}
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.Engine = fakeEngine{publish: func(_ string, p engine.Publication) ([]engine.Receipt, error) {
			return nil, limits.Check(p, 0)
		}}
	})
	for _, name := range []string{"Upstash-Timeout", "Service-Timeout"} {
		r := newRequest("POST", "/v2/publish/https://example.com", nil)
		r.Header.Set(name, "2h")
		got := do(handler, r)
		if want := errorJSON(name + ` "2h" is over the limit of 1h`); got.Code != http.StatusPreconditionFailed || got.Body.String() != want {
			t.Errorf("%d %s, want 412 %s", got.Code, got.Body, want)
		}
	}
}

// TestLimitsNameTheirHeadersInABatch has items each with a limit of its own, and
// more of them than are published at once.
func TestLimitsNameTheirHeadersInABatch(t *testing.T) {
	const item, fine = `{"destination":"https://example.com","headers":{"%s":"11"}}`, `{"destination":"https://example.com"}`
	items := []string{strings.Replace(item, "%s", "Service-Retries", 1), fine, `{"destination":"x:/y"}`, strings.Replace(item, "%s", "Upstash-Retries", 1)}
	inWorld(t, func(w *world) {
		_, body := w.ask(call{method: "POST", path: "/v2/batch", body: "[" + strings.Join(items, ",") + "]"}, "full")
		for _, want := range []string{`[{"error":"Service-Retries \"11\" is over the limit of 10"},{"messageId":`, `,{"error":"Upstash-Retries \"11\" is over the limit of 10"}]`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s", body, want)
			}
		}
	})
}
