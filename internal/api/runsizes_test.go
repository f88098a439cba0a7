package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/workflow"
)

// takesAll are workflows that take in whatever comes.
type takesAll struct{ api.Workflows }

func (takesAll) Submit(_ context.Context, _ string, items []workflow.Item) ([]workflow.Receipt, error) {
	return make([]workflow.Receipt, len(items)), nil
}

func (takesAll) Finish(context.Context, string, workflow.RunID, *string) error { return nil }

// noMessages is an engine that is given batches without messages.
type noMessages struct{ api.Engine }

func (noMessages) PublishBatch(context.Context, string, []engine.Publication) ([]engine.Result, error) {
	return nil, nil
}

// TestSizeOfSteps checks that a step may be larger than a message, for it may have the
// answer of a call, and that nothing else of a run may (contract, workflows 4.5 and 4.11,
// decision 31).
func TestSizeOfSteps(t *testing.T) {
	const maxBody, maxStep = 100, 1000
	batch := func(body string, headers ...string) string {
		fields := map[string]string{"Upstash-Workflow-Runid": "r"}
		for _, name := range headers {
			name, value, _ := strings.Cut(name, ": ")
			fields[name] = value
		}
		text, err := json.Marshal([]map[string]any{{"destination": "https://a.example/wf", "body": body, "headers": fields}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	step, tooLarge := strings.Repeat("x", maxStep), strings.Repeat("x", maxStep+1)
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		want               int
	}{
		"a step":                        {"POST", "/v2/publish/https://a.example/wf", step, []string{"Upstash-Workflow-RunId: r"}, 200},
		"a step that is too large":      {"POST", "/v2/publish/https://a.example/wf", tooLarge, []string{"Upstash-Workflow-RunId: r"}, 412},
		"a step of a batch":             {"POST", "/v2/batch", batch(step), nil, 200},
		"a step of a batch, too large":  {"POST", "/v2/batch", batch(tooLarge), nil, 412},
		"a call":                        {"POST", "/v2/batch", batch(step, "Upstash-Workflow-CallType: toCallback"), nil, 412},
		"the payload of a new run":      {"POST", "/v2/batch", batch(step, "Upstash-Workflow-Init: true"), nil, 413},
		"what a run returns":            {"DELETE", "/v2/workflows/runs/r?cancel=false", step, nil, 200},
		"what a run returns, too large": {"DELETE", "/v2/workflows/runs/r?cancel=false", tooLarge, nil, 412},
	} {
		t.Run(name, func(t *testing.T) {
			surface := newSurface(t, &published{}, func(o *api.Options) {
				o.Engine, o.Workflows, o.MaxBody, o.MaxStep = noMessages{o.Engine}, takesAll{}, maxBody, maxStep
			})
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			r.Header.Set("Authorization", "Bearer full")
			for _, line := range c.headers {
				name, value, _ := strings.Cut(line, ": ")
				r.Header.Set(name, value)
			}
			answer := httptest.NewRecorder()
			surface.ServeHTTP(answer, r)
			if answer.Code != c.want {
				t.Errorf("%s, want %d: %s", fmt.Sprint(answer.Code, " ", http.StatusText(answer.Code)), c.want, answer.Body)
			}
		})
	}
}
