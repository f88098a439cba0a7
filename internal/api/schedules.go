package api

import (
	"context"
	"net/http"

	"posthaste"
	"posthaste/internal/cron"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// Schedules keeps schedules.
type Schedules interface {
	// PutScheduleDedup makes a schedule, or replaces the one with its id, unless the
	// request is a repetition: it returns the id of the earlier one then.
	PutScheduleDedup(ctx context.Context, schedule posthaste.Schedule, once engine.Dedup) (id string, repeated bool, err error)
	PauseSchedule(ctx context.Context, user, id string, paused bool) error
	Schedule(ctx context.Context, user, id string) (engine.ScheduleStatus, error)
	Schedules(ctx context.Context, user, after string) (store.List[engine.ScheduleStatus], error)
	// DeleteSchedule returns nil for a schedule that is not there.
	DeleteSchedule(ctx context.Context, user, id string) error
}

// scheduleReceipt is the response to a request that creates a schedule.
type scheduleReceipt struct {
	ScheduleID   string `json:"scheduleId"`
	Deduplicated bool   `json:"deduplicated,omitempty"`
}

// createSchedule makes a schedule for the destination in the path (contract,
// messages 2.7).
func (a *api) createSchedule(r *request) (answer, error) {
	controls, err := collectControls(r.Header, r.reserved)
	if err != nil {
		return answer{}, err
	}
	if err := r.checkKnown(controls); err != nil {
		return answer{}, err
	}
	return a.putSchedule(r, controls, "")
}

// putSchedule makes a schedule whose messages go through the queue, or through
// the one that the controls name if that is empty.
func (a *api) putSchedule(r *request, c controls, queue string) (answer, error) {
	p, err := a.newIntake(r).publication(r.Context(), r.destinationText(), c, r.incoming())
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
	schedule.Trace = "" // each tick starts a trace
	if err := decodeSchedule(&schedule, c); err != nil {
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

// decodeSchedule reads the controls that schedules alone have.
func decodeSchedule(schedule *posthaste.Schedule, c controls) error {
	expression, ok := c.values[controlCron]
	if !ok {
		return posthaste.Invalidf("Upstash-Cron is missing, a schedule needs a cron expression such as */5 * * * *")
	}
	schedule.Cron = expression.text()
	if _, err := cron.Parse(schedule.Cron); err != nil {
		return posthaste.Invalidf("%s %v", expression.name, err)
	}
	if start, ok := c.values[controlNotBefore]; ok {
		return posthaste.Invalidf("%s %.100q cannot be given to a schedule: its messages start at its ticks", start.name, start.text())
	}
	if id, ok := c.values[controlScheduleID]; ok {
		schedule.ID = id.text()
		if err := posthaste.CheckNewName(id.name, schedule.ID); err != nil {
			return err
		}
	}
	if queue, ok := c.values[controlQueueName]; ok && schedule.Queue == "" {
		schedule.Queue = queue.text()
		return posthaste.CheckNewName(queue.name, schedule.Queue)
	}
	return nil
}

func (a *api) listSchedules(r *request) (answer, error) {
	size := func(s engine.ScheduleStatus) int { return store.ScheduleSize(s.Schedule) }
	return newList(r, newScheduleView, size, func(ctx context.Context, after string) (store.List[engine.ScheduleStatus], error) {
		return a.options.Engine.Schedules(ctx, r.user, after)
	})
}

func (a *api) getSchedule(r *request) (answer, error) {
	id, err := r.scheduleID()
	if err != nil {
		return answer{}, err
	}
	schedule, err := a.options.Engine.Schedule(r.Context(), r.user, id)
	if err != nil {
		return answer{}, orNotFound(err, "schedule", id)
	}
	return ok(newScheduleView(schedule)), nil
}

func (a *api) deleteSchedule(r *request) (answer, error) {
	id, err := r.scheduleID()
	if err != nil {
		return answer{}, err
	}
	return done, a.options.Engine.DeleteSchedule(r.Context(), r.user, id)
}

func (a *api) pauseSchedule(r *request) (answer, error)  { return a.setSchedulePaused(r, true) }
func (a *api) resumeSchedule(r *request) (answer, error) { return a.setSchedulePaused(r, false) }

func (a *api) setSchedulePaused(r *request, paused bool) (answer, error) {
	id, err := r.scheduleID()
	if err != nil {
		return answer{}, err
	}
	return done, orNotFound(a.options.Engine.PauseSchedule(r.Context(), r.user, id, paused), "schedule", id)
}

func (r *request) scheduleID() (string, error) { return r.pathName("schedule", "schedule id") }
