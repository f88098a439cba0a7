package workflow_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// flow is a workflow as its endpoint was written: groups of steps, one after the
// other. The steps of a group are done together. It returns the values of all its
// steps, in order.
type flow []group

type group []step

// step is one step of a flow.
type step struct {
	name     string
	kind     string        // as SDKs call it, or one of the two below
	value    string        // what a Run step returns
	duration time.Duration // SleepFor: how long; SleepUntil: since the start; Wait: at most
	url      string        // Call: where to; Invoke: of the workflow
	status   int           // kindThrow: the answer
	run      string        // Notify, Invoke: the run
	event    string        // Wait, Notify
	retries  int           // Call
	keep     bool          // Call: a failure is an answer (WF_NoDelete)
}

// Kinds of steps that SDKs send nothing of: the flow gives itself up, or its code
// throws an error.
const (
	kindCancel = "cancel"
	kindThrow  = "throw"
)

func run(name string) step { return step{name: name, kind: "Run", value: "<" + name + ">"} }

func sleep(name string, d time.Duration) step { return step{name: name, kind: "SleepFor", duration: d} }

func sleepUntil(name string, at time.Duration) step {
	return step{name: name, kind: "SleepUntil", duration: at}
}

// call is a call whose failure is an answer.
func call(name, url string, retries int) step {
	return step{name: name, kind: "Call", url: url, retries: retries, keep: true}
}

func wait(name, event string, timeout time.Duration) step {
	return step{name: name, kind: "Wait", event: event, duration: timeout}
}

func notify(name, run, event string) step {
	return step{name: name, kind: "Notify", run: run, event: event}
}

func invoke(name, url, run string) step { return step{name: name, kind: "Invoke", url: url, run: run} }

func cancel() group { return group{{kind: kindCancel}} }

func throw(status int) group { return group{{kind: kindThrow, status: status}} }

// written is a step as SDKs write it (contract, workflows 3.1).
type written struct {
	ID          int     `json:"stepId"`
	Name        string  `json:"stepName"`
	Type        string  `json:"stepType"`
	Concurrent  int     `json:"concurrent"`
	Target      int     `json:"targetStep,omitempty"`
	Out         *string `json:"out,omitempty"`
	SleepFor    float64 `json:"sleepFor,omitempty"`
	WaitEventID string  `json:"waitEventId,omitempty"`
	WaitTimeout bool    `json:"waitTimeout,omitempty"`
}

func (s step) written(id, concurrent int) written {
	return written{ID: id, Name: s.name, Type: s.kind, Concurrent: concurrent}
}

// plan announces a step of a group.
func (s step) plan(id, concurrent int) written {
	w := s.written(0, concurrent)
	w.Target, w.SleepFor = id, s.duration.Seconds()
	return w
}

// result is what an endpoint did itself.
func (s step) result(id, concurrent int) written {
	w := s.written(id, concurrent)
	if s.value != "" {
		w.Out = &s.value
	}
	return w
}

// isPlan reports whether the step announces another one.
func (w written) isPlan() bool { return w.Target > 0 }

// about is the id of the step that an entry is about.
func (w written) about() int { return max(w.ID, w.Target) }

// calledBack is the result of a call.
type calledBack struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

// ended is the result of an invocation (contract, workflows 4.9).
type ended struct {
	Body        *string `json:"body"`
	IsFailed    *bool   `json:"isFailed"`
	IsCancelled *bool   `json:"isCanceled"`
}

// returned is what the code of a flow gets as the result of a step.
func (w written) returned() (string, error) {
	switch w.Type {
	case "SleepFor", "SleepUntil":
		return "slept", nil
	case "Wait":
		switch {
		case w.WaitTimeout:
			return "timeout", nil
		case w.Out == nil:
			return "nothing", nil
		}
	}
	if w.Out == nil {
		return "", fmt.Errorf("step %d %s has no result", w.ID, w.Name)
	}
	switch w.Type {
	case "Wait":
		event, err := base64.StdEncoding.DecodeString(*w.Out)
		return string(event), err
	case "Call":
		var answer calledBack
		err := json.Unmarshal([]byte(*w.Out), &answer)
		return fmt.Sprint(answer.Status, answer.Body), err
	case "Invoke":
		var end ended
		err := json.Unmarshal([]byte(*w.Out), &end)
		return end.String(), err
	default:
		return *w.Out, nil
	}
}

func (e ended) String() string {
	switch {
	case e.IsFailed == nil || e.IsCancelled == nil:
		return "incomplete"
	case *e.IsFailed:
		return "failed"
	case *e.IsCancelled:
		return "cancelled"
	case e.Body == nil:
		return "nothing"
	default:
		return "[" + *e.Body + "]"
	}
}
