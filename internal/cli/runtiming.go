package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"posthaste"
	"posthaste/internal/client"
)

// runEvent is a change of a step of a run.
type runEvent struct {
	Time  int64      `json:"time"` // Unix ms
	State string     `json:"state"`
	Step  *runStepOf `json:"stepInfo"`
}

// runStepOf says which step a change is of.
type runStepOf struct {
	ID        *int   `json:"stepId"`
	Name      string `json:"stepName"`
	MessageID string `json:"messageId"`
}

// key identifies a step of a run: by its number, which the first has not.
func (s runStepOf) key() string {
	if s.ID == nil {
		return "name " + s.Name
	}
	return strconv.Itoa(*s.ID)
}

// eventsOf returns the changes of a run, the earliest first.
func eventsOf(ctx context.Context, server *client.Client, run listedRun) (events []runEvent, err error) {
	request := client.Request{Path: "/v2/workflows/events"}.
		With("workflowRuns", run.ID+"@"+strconv.FormatInt(run.CreatedAt, 10)).With("order", "earliestFirst").With("trimBody", noBodies)
	for page, err := range server.Pages(ctx, request) {
		if err != nil {
			return nil, err
		}
		some, err := listIn(page.Body, "events")
		if err != nil {
			return nil, err
		}
		for _, one := range some {
			var e runEvent
			if err := json.Unmarshal(one, &e); err != nil {
				return nil, err
			}
			if e.Step != nil {
				events = append(events, e)
			}
		}
	}
	return events, nil
}

// setTimes sets how long each step took, or takes until now. One whose beginning no change
// shows, because the workflow continued with it by itself, began when the group before it ended.
// A step that a resumed run has taken over, of which it has no change, took no time in this run.
func (run *listedRun) setTimes(events []runEvent, now int64) {
	changes := map[string][]runEvent{}
	for _, e := range events {
		changes[e.Step.key()] = append(changes[e.Step.key()], e)
	}
	before := run.CreatedAt
	for _, group := range run.Groups {
		last := before
		for i := range group.Steps {
			step := &group.Steps[i]
			own := changes[step.key()]
			if run.ResumeOf.ID != "" && len(own) == 0 && step.State == posthaste.StepSuccess {
				continue
			}
			step.begun, step.ended = before, now
			if run.CompletedAt != 0 {
				step.ended = run.CompletedAt
			}
			if len(own) > 0 && own[0].State == string(posthaste.StepProgress) {
				step.begun = max(own[0].Time, run.CreatedAt)
			}
			for _, e := range own {
				switch posthaste.StepState(e.State) {
				case posthaste.StepSuccess, posthaste.StepFailed, posthaste.StepCancelled:
					step.ended = e.Time
				}
			}
			if woke := step.wokeAt(events); woke != 0 {
				step.ended = woke
			}
			step.ended = max(step.ended, step.begun)
			last = max(last, step.ended)
		}
		before = last
	}
}

// wokeAt returns when a sleep that is over has ended, 0 for other steps. The log has its end
// only once the workflow has done the next step. So it ended when it was to end, or earlier if
// its message was run before.
func (s *listedStep) wokeAt(events []runEvent) int64 {
	due := s.SleepUntil * 1000
	if due == 0 {
		due = s.CreatedAt + s.SleepFor*1000
	}
	if s.State != posthaste.StepSuccess || s.SleepUntil == 0 && s.SleepFor == 0 {
		return 0
	}
	for _, e := range events {
		if e.Step.MessageID == s.MessageID && e.State != string(posthaste.StepProgress) {
			return min(due, e.Time)
		}
	}
	return due
}

// took returns how long the step took.
func (s *listedStep) took() string {
	if s.ended == 0 {
		return ""
	}
	return briefly(time.Duration(s.ended-s.begun) * time.Millisecond)
}
