package telemetry

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/engine"
)

// TestSpansOfSteps checks what the spans of a run are called and what they tell of the
// step, for each kind of message that a run has.
func TestSpansOfSteps(t *testing.T) {
	const workflowURL = "https://name:leak@app.example/api/orders?token=leak"
	inHeader := http.Header{
		"Upstash-Workflow-Stepid": {"3"}, "Upstash-Workflow-Stepname": {"pay"}, "Upstash-Workflow-Steptype": {"Call"},
	}
	for name, c := range map[string]struct {
		link     posthaste.RunLink
		body     string
		settings posthaste.Settings
		want     string // the name of the span
		step     map[string]any
	}{
		"the payload": {
			posthaste.RunLink{CallType: posthaste.CallStep}, `{"stepName":"of the user"}`, posthaste.Settings{},
			"step init", map[string]any{"step_name": "init", "step_type": "Initial", "step_id": int64(0)},
		},
		"a result": {
			posthaste.RunLink{CallType: posthaste.CallStep, Entry: 4}, `{"stepId":2,"stepName":"charge","stepType":"Run","out":"1"}`, posthaste.Settings{},
			"step charge", map[string]any{"step_name": "charge", "step_type": "Run", "step_id": int64(2)},
		},
		"a plan": {
			posthaste.RunLink{CallType: posthaste.CallStep, Entry: 1}, `{"stepId":0,"targetStep":5,"stepName":"charge","stepType":"Run"}`, posthaste.Settings{},
			"plan charge", map[string]any{"step_name": "charge", "step_type": "Run", "step_id": int64(5)},
		},
		"a long name": {
			posthaste.RunLink{CallType: posthaste.CallStep, Entry: 1}, `{"stepId":1,"stepName":"` + strings.Repeat("x", 99) + `ä","stepType":"Run"}`, posthaste.Settings{},
			"step " + strings.Repeat("x", 99), map[string]any{"step_name": strings.Repeat("x", 99), "step_type": "Run", "step_id": int64(1)},
		},
		"no step": {
			posthaste.RunLink{CallType: posthaste.CallStep, Entry: 1}, `leak`, posthaste.Settings{},
			"step", map[string]any{},
		},
		"a call": {
			posthaste.RunLink{CallType: posthaste.CallRequest, Entry: 1}, `leak`, posthaste.Settings{Callback: &posthaste.Callback{Settings: posthaste.Settings{Header: inHeader}}},
			"call pay", map[string]any{"step_name": "pay", "step_type": "Call", "step_id": int64(3)},
		},
		"a call that nobody is told of": {
			posthaste.RunLink{CallType: posthaste.CallRequest, Entry: 1}, `leak`, posthaste.Settings{},
			"call", map[string]any{},
		},
		"the answer of a call": {
			posthaste.RunLink{CallType: posthaste.CallAnswer, Entry: 2}, `{"body":"leak"}`, posthaste.Settings{Header: inHeader},
			"answer pay", map[string]any{"step_name": "pay", "step_type": "Call", "step_id": int64(3)},
		},
		"a call outside ASCII": {
			posthaste.RunLink{CallType: posthaste.CallAnswer, Entry: 2}, `{}`, posthaste.Settings{Header: http.Header{"Upstash-Workflow-Stepname": {"Jos\xe9"}}},
			"answer José", map[string]any{"step_name": "José"},
		},
		"a failure callback": {
			posthaste.RunLink{CallType: posthaste.CallFailure}, `{"body":"leak"}`, posthaste.Settings{},
			"failure callback", map[string]any{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			traces, exporter := recording(t, "")
			m := traced()
			link := c.link
			link.RunRef = posthaste.RunRef{ID: "wfr_1", URL: workflowURL}
			m.Run, m.Body, m.Settings = &link, []byte(c.body), c.settings
			traces.attemptFinished(engine.AttemptReport{Message: m, State: posthaste.StateDelivered})
			spans := exporter.GetSpans()
			if len(spans) != 1 || spans[0].Name != c.want {
				t.Fatalf("spans %v, want one with the name %q", spans, c.want)
			}
			got := map[string]any{}
			for _, a := range spans[0].Attributes {
				if text := a.Value.String(); strings.Contains(text, "leak") {
					t.Errorf("%s tells %q", a.Key, text)
				}
				if key, isStep := strings.CutPrefix(string(a.Key), "posthaste.step_"); isStep {
					got["step_"+key] = a.Value.AsInterface()
				}
				if a.Key == "posthaste.workflow_url" && a.Value.AsString() != "https://app.example/api/orders" {
					t.Errorf("the URL is %q", a.Value.AsString())
				}
			}
			if diff := cmp.Diff(c.step, got); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}
