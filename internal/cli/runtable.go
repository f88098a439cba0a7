package cli

import (
	"encoding/json"
	"strings"

	"posthaste"
)

// listedRun is what is shown of a run.
type listedRun struct {
	ID          string             `json:"workflowRunId"`
	URL         string             `json:"workflowUrl"`
	State       posthaste.RunState `json:"workflowState"`
	CreatedAt   int64              `json:"workflowRunCreatedAt"`   // Unix ms
	CompletedAt int64              `json:"workflowRunCompletedAt"` // Unix ms
	Response    string             `json:"workflowRunResponse"`
	DLQID       string             `json:"dlqId"`
	Label       string             `json:"label"`
	Successor   struct {
		ID string `json:"workflowRunId"`
	} `json:"successor"`
	Groups []struct {
		Steps []json.RawMessage `json:"steps"` // of listedStep
	} `json:"steps"`
}

// listedStep is what is shown of a step.
type listedStep struct {
	Name      string              `json:"stepName"`
	Type      string              `json:"stepType"`
	CallType  string              `json:"callType"`
	State     posthaste.StepState `json:"state"`
	CreatedAt int64               `json:"createdAt"` // Unix ms
	Out       string              `json:"out"`
	NextAt    int64               `json:"nextDeliveryTime"` // Unix ms
	Errors    []struct {
		Error string `json:"error"`
		Body  string `json:"body"`
	} `json:"errors"`
}

// runTable shows runs.
var runTable = tableOf(columns{
	{"CREATED", len(tableTime)},
	{"STATE", len(posthaste.RunCancelled)},
	{"RUN", 28},
	{name: "WORKFLOW"},
}, func(run listedRun) []cell {
	return []cell{at(run.CreatedAt), inState(run.State), {text: run.ID}, {text: run.URL}}
})

// stepTable shows the steps of a run.
var stepTable = tableOf(columns{
	{"CREATED", len(tableTime)},
	{"STATE", len(posthaste.StepCancelled)},
	{"TYPE", 12},
	{"STEP", 20},
	{name: "RESULT"},
}, func(step listedStep) []cell {
	return []cell{at(step.CreatedAt), inState(step.State), {text: step.Type}, {text: step.Name}, step.result()}
})

// result tells what became of a step, or what is wrong with it.
func (s *listedStep) result() cell {
	if s.State == posthaste.StepSuccess || len(s.Errors) == 0 {
		return cell{text: brief(s.Out)}
	}
	last := s.Errors[len(s.Errors)-1]
	text := strings.TrimSpace(last.Error + " " + brief(last.Body))
	if s.NextAt != 0 {
		text += ", next " + at(s.NextAt).text
	}
	return cell{text: text}
}

// brief returns the beginning of a text.
func brief(text string) string {
	const enough = 80
	if runes := []rune(text); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return text
}

// printRun writes a run and its steps.
func printRun(t terminal, value json.RawMessage) error {
	if err := printRunFields(t, value); err != nil {
		return err
	}
	steps := func(yield func(json.RawMessage, error) bool) {
		var run listedRun
		_ = json.Unmarshal(value, &run) // was read before
		for _, group := range run.Groups {
			for _, step := range group.Steps {
				if !yield(step, nil) {
					return
				}
			}
		}
	}
	if err := (list{output: "table", table: stepTable}).write(t, steps); err != nil {
		return err
	}
	return writeLine(t.Out, "")
}

var printRunFields = fieldsOf(func(run listedRun) []field {
	return []field{
		{"run", run.ID},
		{"workflow", run.URL},
		{"state", string(run.State)},
		{"created", at(run.CreatedAt).text},
		{"ended", at(run.CompletedAt).text},
		{"label", run.Label},
		{"response", brief(run.Response)},
		{"dead letter", run.DLQID},
		{"restarted as", run.Successor.ID},
	}
})
