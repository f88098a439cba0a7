package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

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
	Successor   runRef             `json:"successor"`
	RestartOf   runRef             `json:"restartOf"`
	ResumeOf    runRef             `json:"resumeOf"`
	Groups      []struct {
		Type  string       `json:"type"`
		Steps []listedStep `json:"steps"`
	} `json:"steps"`
}

type runRef struct {
	ID string `json:"workflowRunId"`
}

// listedStep is what is shown of a step.
type listedStep struct {
	runStepOf
	Type      string              `json:"stepType"`
	CallType  string              `json:"callType"`
	State     posthaste.StepState `json:"state"`
	CreatedAt int64               `json:"createdAt"` // Unix ms
	Out       string              `json:"out"`
	NextAt    int64               `json:"nextDeliveryTime"` // Unix ms

	SleepFor   int64 `json:"sleepFor"`   // seconds
	SleepUntil int64 `json:"sleepUntil"` // Unix seconds

	begun, ended int64 // Unix ms; see setTimes

	Errors []struct {
		Error string `json:"error"`
		Body  string `json:"body"`
	} `json:"errors"`
}

// runTable shows runs.
var runTable = tableOf(columns{
	{"CREATED", ofTime},
	{"STATE", len(posthaste.RunCancelled)},
	{"TOOK", 7},
	{"RUN", 28},
	{name: "WORKFLOW"},
}, func(run listedRun) []cell {
	return []cell{at(run.CreatedAt), inState(run.State), {text: run.took()}, {text: run.ID}, {text: run.URL}}
})

// stepColumns are those of the steps of a run. Steps of a parallel group are held together.
var stepColumns = columns{
	{"ENDED", ofTime},
	{"STATE", len(posthaste.StepCancelled)},
	{"TOOK", 7},
	{"TYPE", 8},
	{"STEP", 24},
	{name: "RESULT"},
}

// rows returns the rows of the steps.
func (run *listedRun) rows() (rows [][]cell) {
	for _, group := range run.Groups {
		for i, step := range group.Steps {
			branch := ""
			switch {
			case len(group.Steps) == 1:
			case i == 0:
				branch = "┌ "
			case i == len(group.Steps)-1:
				branch = "└ "
			default:
				branch = "├ "
			}
			took := step.took()
			if step.ended == 0 && run.ResumeOf.ID != "" {
				took = "before"
			}
			rows = append(rows, []cell{
				at(step.CreatedAt), inState(step.State), {text: took}, {text: step.Type}, {text: branch + step.Name}, step.result(),
			})
		}
	}
	return rows
}

// result shows what became of a step, or what is wrong with it.
func (s *listedStep) result() cell {
	if s.State == posthaste.StepSuccess || len(s.Errors) == 0 {
		return cell{text: brief(s.Out)}
	}
	last := s.Errors[len(s.Errors)-1]
	text := strings.TrimSpace(last.Error + " " + brief(said(last.Body)))
	if s.NextAt != 0 {
		text += ", next " + at(s.NextAt).text
	}
	return cell{text: text}
}

// said returns what the error of an SDK says, or the text itself if it is none.
func said(text string) string {
	var failure struct{ Error, Message string }
	if json.Unmarshal([]byte(text), &failure) != nil || failure.Message == "" {
		return text
	}
	return strings.TrimPrefix(failure.Error+": "+failure.Message, ": ")
}

// brief returns the beginning of a text, without the line break that many end with.
func brief(text string) string { return begin(text, 80) }

// enoughBody is how many characters of a body are shown where there is a line for it.
const enoughBody = 1000

func begin(text string, enough int) string {
	text = strings.TrimSpace(text)
	if runes := []rune(text); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return text
}

// printRun writes a run and its steps, with how long they took.
func printRun(t terminal, value json.RawMessage, events func(listedRun) ([]runEvent, error)) error {
	var run listedRun
	if err := json.Unmarshal(value, &run); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	changes, err := events(run)
	if err != nil {
		return err
	}
	run.setTimes(changes, time.Now().UnixMilli())
	if err := printRunFields(t, value); err != nil {
		return err
	}
	return stepColumns.writeRows(t.Out, run.rows())
}

var printRunFields = fieldsOf(func(run listedRun) []field {
	letter := run.DLQID
	if run.Successor.ID != "" { // which took its place
		letter = ""
	}
	return []field{
		{"run", run.ID},
		{"workflow", run.URL},
		{"state", string(run.State)},
		{"created", at(run.CreatedAt).text},
		{"ended", at(run.CompletedAt).text},
		{"took", run.took()},
		{"label", run.Label},
		{"response", begin(run.Response, enoughBody)},
		{"restart of", run.RestartOf.ID},
		{"resume of", run.ResumeOf.ID},
		{"dead letter", letter},
		{"restarted as", run.Successor.ID},
	}
})

// took returns how long the run took, "" until it has ended.
func (run *listedRun) took() string {
	if run.CompletedAt == 0 {
		return ""
	}
	return briefly(time.Duration(run.CompletedAt-run.CreatedAt) * time.Millisecond)
}
