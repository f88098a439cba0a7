package api

import (
	"time"

	"posthaste"
	"posthaste/internal/engine"
)

// scheduleView is a schedule as it is read (contract, messages 2.7).
type scheduleView struct {
	ScheduleID      string `json:"scheduleId"`
	Cron            string `json:"cron"`
	Destination     string `json:"destination"`
	Method          string `json:"method"`
	CreatedAt       int64  `json:"createdAt"` // Unix ms
	Retries         int    `json:"retries"`
	IsPaused        bool   `json:"isPaused"`
	Delay           int64  `json:"delay,omitempty"`   // seconds
	Timeout         int64  `json:"timeout,omitempty"` // ms
	QueueName       string `json:"queueName,omitempty"`
	Callback        string `json:"callback,omitempty"`
	FailureCallback string `json:"failureCallback,omitempty"`
	RetryDelay      string `json:"retryDelayExpression,omitempty"`
	contentFields
	labelFields
	flowFields
	CallerIP         string `json:"callerIP,omitempty"`
	CallerIPForREST  string `json:"callerIp,omitempty"`         // the same under the name that is documented
	LastScheduleTime int64  `json:"lastScheduleTime,omitempty"` // Unix ms
	NextScheduleTime int64  `json:"nextScheduleTime,omitempty"` // Unix ms

	LastScheduleStates map[posthaste.MessageID]tickState `json:"lastScheduleStates,omitempty"`

	Error string `json:"error,omitempty"` // why the last tick made no message
}

func newScheduleView(s engine.ScheduleStatus) scheduleView {
	view := scheduleView{
		ScheduleID:       s.ID,
		Cron:             s.Cron,
		Destination:      s.Destination,
		Method:           s.Verb(),
		CreatedAt:        s.CreatedAt.UnixMilli(),
		Retries:          s.MaxRetries(),
		IsPaused:         s.Paused,
		Delay:            int64(s.Delay / time.Second),
		Timeout:          s.Timeout.Milliseconds(),
		QueueName:        s.Queue,
		Callback:         callbackURL(s.Callback),
		FailureCallback:  callbackURL(s.FailureCallback),
		RetryDelay:       s.RetryDelay,
		contentFields:    newContentFields(&s.Settings, s.Body, wholeBody),
		labelFields:      newLabelFields(s.Labels),
		flowFields:       newFlowFields(s.FlowControl),
		CallerIP:         s.CallerIP,
		CallerIPForREST:  s.CallerIP,
		LastScheduleTime: optionalMillis(s.LastAt),
		Error:            s.Error,
	}
	if !s.Paused {
		view.NextScheduleTime = optionalMillis(s.NextAt)
	}
	view.LastScheduleStates = tickStates(s.LastStates)
	return view
}

// optionalMillis returns a time in Unix milliseconds, 0 for none.
func optionalMillis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// tickState is what became of a message of a tick. SDKs refuse other values.
type tickState string

const (
	tickInProgress tickState = "IN_PROGRESS"
	tickSuccess    tickState = "SUCCESS"
	tickFail       tickState = "FAIL"
)

func tickStates(states map[posthaste.MessageID]posthaste.State) map[posthaste.MessageID]tickState {
	shown := make(map[posthaste.MessageID]tickState, len(states))
	for id, state := range states {
		switch state {
		case posthaste.StateDelivered:
			shown[id] = tickSuccess
		case posthaste.StateFailed, posthaste.StateCancelled:
			shown[id] = tickFail
		default:
			shown[id] = tickInProgress
		}
	}
	return shown
}
