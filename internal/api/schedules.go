package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"posthaste"
	"posthaste/internal/api/wire"
	"posthaste/internal/cron"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// Schedules manages schedules.
type Schedules interface {
	// PutScheduleDedup creates or replaces a schedule, or returns the earlier id for a
	// repetition.
	PutScheduleDedup(ctx context.Context, schedule posthaste.Schedule, once engine.Dedup) (id string, repeated bool, err error)
	PauseSchedule(ctx context.Context, user, id string, paused bool) error
	Schedule(ctx context.Context, user, id string) (engine.ScheduleStatus, error)
	Schedules(ctx context.Context, user, after string) (store.List[engine.ScheduleStatus], error)
	// DeleteSchedule ignores an unknown schedule.
	DeleteSchedule(ctx context.Context, user, id string) error
}

type scheduleReceipt struct {
	ScheduleID   string `json:"scheduleId"`
	Deduplicated bool   `json:"deduplicated,omitempty"`
}

// createSchedule creates a schedule for the destination in the path (contract, messages 2.7).
func (a *api) createSchedule(r *request, c wire.Controls) (answer, error) {
	return a.putSchedule(r, c, "")
}

// putSchedule creates a schedule with the given queue, or else that of the controls.
func (a *api) putSchedule(r *request, c wire.Controls, queue string) (answer, error) {
	p, err := a.newIntake(r).publication(r.destinationText(), c, r.incoming())
	if err != nil {
		return answer{}, err
	}
	schedule := posthaste.Schedule{
		User:        r.user,
		Destination: p.Destination,
		Queue:       queue,
		Delay:       p.Delay,
		CallerIP:    p.CallerIP,
		Settings:    p.Settings,
	}
	schedule.Trace = "" // each tick has its own
	if err := wire.ReadSchedule(&schedule, c); err != nil {
		return answer{}, err
	}
	if schedule.Body, err = r.readBody(a.options.MaxBody); err != nil {
		return answer{}, err
	}
	once := engine.Dedup{ID: p.DeduplicationID, ByContent: p.ContentBasedDeduplication}
	id, repeated, err := a.options.Engine.PutScheduleDedup(r.Context(), schedule, once)
	if err != nil {
		return answer{}, err
	}
	if repeated {
		return answer{http.StatusAccepted, scheduleReceipt{id, true}}, nil
	}
	return ok(scheduleReceipt{ScheduleID: id}), nil
}

func (a *api) listSchedules(r *request) (answer, error) {
	size := func(s engine.ScheduleStatus) int { return store.ScheduleSize(s.Schedule) }
	return newList(r, newScheduleView, size, func(ctx context.Context, after string) (store.List[engine.ScheduleStatus], error) {
		return a.options.Engine.Schedules(ctx, r.user, after)
	})
}

func (a *api) getSchedule(r *request, id string) (answer, error) {
	schedule, err := a.options.Engine.Schedule(r.Context(), r.user, id)
	if err != nil {
		return answer{}, orNotFound(err, "schedule", id)
	}
	return ok(newScheduleView(schedule)), nil
}

func (a *api) deleteSchedule(r *request, id string) (answer, error) {
	return done, a.options.Engine.DeleteSchedule(r.Context(), r.user, id)
}

// pauseSchedule pauses or resumes a schedule.
func (a *api) pauseSchedule(paused bool) func(r *request, id string) (answer, error) {
	return func(r *request, id string) (answer, error) {
		return done, orNotFound(a.options.Engine.PauseSchedule(r.Context(), r.user, id, paused), "schedule", id)
	}
}

// scheduleView is a schedule as shown (contract, messages 2.7).
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
	CallerIPForREST  string `json:"callerIp,omitempty"`         // under the documented name
	LastScheduleTime int64  `json:"lastScheduleTime,omitempty"` // Unix ms
	NextScheduleTime int64  `json:"nextScheduleTime,omitempty"` // Unix ms

	LastScheduleStates map[posthaste.MessageID]tickState `json:"lastScheduleStates,omitempty"`

	Error string `json:"error,omitempty"` // why the last tick created no message
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

// optionalMillis returns Unix milliseconds, 0 for no time.
func optionalMillis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// tickState is the state of a tick's message. SDKs reject other values.
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

// tickCount limits the ticks of a call.
var tickCount = wire.Count{Default: 5, Most: 100}

// ticksView has the next ticks of a cron expression.
type ticksView struct {
	Cron  string  `json:"cron"`
	Zone  string  `json:"zone"`  // IANA name
	Ticks []int64 `json:"ticks"` // Unix ms, ascending
}

// getTicks shows the next ticks of any expression.
func (a *api) getTicks(r *request, params url.Values) (answer, error) {
	if err := wire.CheckNames(params, "cron", "count"); err != nil {
		return answer{}, err
	}
	count, err := tickCount.Read(params)
	if err != nil {
		return answer{}, err
	}
	text, err := wire.One(params, "cron")
	if err != nil {
		return answer{}, err
	}
	if text == "" {
		return answer{}, posthaste.Invalidf("cron is missing: a cron expression such as */5 * * * * is accepted")
	}
	schedule, err := cron.Parse(text)
	if err != nil {
		return answer{}, posthaste.Invalidf("cron %v", err)
	}
	return ok(newTicksView(text, schedule, time.Now(), count)), nil
}

// newTicksView has fewer ticks if the expression has no more within the searched years.
func newTicksView(text string, schedule cron.Schedule, now time.Time, count int) ticksView {
	view := ticksView{Cron: text, Ticks: make([]int64, 0, count)}
	at := schedule.Next(now)
	view.Zone = at.Location().String()
	for ; !at.IsZero() && len(view.Ticks) < count; at = schedule.Next(at) {
		view.Ticks = append(view.Ticks, at.UnixMilli())
	}
	return view
}
