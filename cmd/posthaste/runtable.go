package main

import (
	"encoding/json"
	"fmt"
	"io"
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
	Successor   *struct {
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

// newRunTable returns a table of runs.
func newRunTable(out io.Writer, coloured bool) *table {
	return &table{out, coloured, []column{
		{"CREATED", len(tableTime)},
		{"STATE", len(posthaste.RunCancelled)},
		{"RUN", 28},
		{name: "WORKFLOW"},
	}, func(value json.RawMessage) ([]cell, error) {
		var run listedRun
		if err := json.Unmarshal(value, &run); err != nil {
			return nil, err
		}
		return []cell{at(run.CreatedAt), inState(run.State), {text: run.ID}, {text: run.URL}}, nil
	}}
}

// newStepTable returns a table of the steps of a run.
func newStepTable(out io.Writer, coloured bool) *table {
	return &table{out, coloured, []column{
		{"CREATED", len(tableTime)},
		{"STATE", len(posthaste.StepCancelled)},
		{"TYPE", 12},
		{"STEP", 20},
		{name: "RESULT"},
	}, func(value json.RawMessage) ([]cell, error) {
		var step listedStep
		if err := json.Unmarshal(value, &step); err != nil {
			return nil, err
		}
		return []cell{at(step.CreatedAt), inState(step.State), {text: step.Type}, {text: step.Name}, step.result()}, nil
	}}
}

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
func printRun(out io.Writer, coloured bool, value json.RawMessage) error {
	var run listedRun
	if err := json.Unmarshal(value, &run); err != nil {
		return fmt.Errorf("read a run: %w", err)
	}
	fields := []field{
		{"run", run.ID},
		{"workflow", run.URL},
		{"state", string(run.State)},
		{"created", at(run.CreatedAt).text},
		{"ended", at(run.CompletedAt).text},
		{"label", run.Label},
		{"response", brief(run.Response)},
		{"dead letter", run.DLQID},
	}
	if run.Successor != nil {
		fields = append(fields, field{"restarted as", run.Successor.ID})
	}
	if err := printFields(out, fields); err != nil {
		return err
	}
	steps := newStepTable(out, coloured)
	if err := steps.begin(); err != nil {
		return err
	}
	for _, group := range run.Groups {
		for _, step := range group.Steps {
			if err := steps.print(step); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}
