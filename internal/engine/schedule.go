package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/cron"
	"posthaste/internal/store"
)

// PutSchedule creates a schedule or replaces the one with its id, except for creation time and
// pause. It generates a missing id, and returns the id.
func (e *Engine) PutSchedule(ctx context.Context, schedule posthaste.Schedule) (id string, err error) {
	times, err := cron.Parse(schedule.Cron)
	if err != nil {
		return "", err
	}
	if err := e.checkSchedule(ctx, &schedule); err != nil {
		return "", err
	}
	if schedule.ID == "" {
		if schedule.ID, err = e.newScheduleID(); err != nil {
			return "", err
		}
	}
	now := e.now()
	err = e.options.Store.UpdateSchedule(ctx, now, schedule.User, schedule.ID, func(stored *posthaste.Schedule) error {
		created, paused := stored.CreatedAt, stored.Paused
		*stored = schedule
		stored.CreatedAt, stored.Paused, stored.NextAt = created, paused, times.Next(now)
		return nil
	})
	if err != nil {
		return "", err
	}
	e.wakeScheduler()
	return schedule.ID, nil
}

// checkSchedule rejects settings above the limits of messages, and a new schedule above the
// limit.
func (e *Engine) checkSchedule(ctx context.Context, schedule *posthaste.Schedule) error {
	limits := e.options.Limits
	if err := limits.Check(Publication{Settings: schedule.Settings}, schedule.Delay); err != nil || limits.Schedules == 0 {
		return err
	}
	count := 0
	for after, more := "", true; more; {
		list, err := e.options.Store.Schedules(ctx, schedule.User, after)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list.Items, func(other *posthaste.Schedule) bool { return other.ID == schedule.ID }) {
			return nil
		}
		count += len(list.Items)
		after, more = list.Next, list.Next != ""
	}
	if count >= limits.Schedules {
		return posthaste.Errorf(posthaste.CodeLimit, "there are %d schedules already, the limit is %d", count, limits.Schedules)
	}
	return nil
}

func (e *Engine) newScheduleID() (string, error) {
	var random [12]byte
	if _, err := io.ReadFull(e.options.Entropy, random[:]); err != nil {
		return "", fmt.Errorf("make schedule id: %w", err)
	}
	return "scd_" + hex.EncodeToString(random[:]), nil
}

// PauseSchedule pauses or resumes a schedule. Ticks during the pause are skipped for good. It
// returns store.ErrNotFound for an unknown one.
func (e *Engine) PauseSchedule(ctx context.Context, user, id string, paused bool) error {
	now := e.now()
	err := e.options.Store.UpdateSchedule(ctx, now, user, id, func(schedule *posthaste.Schedule) error {
		if schedule.CreatedAt.IsZero() {
			return store.ErrNotFound
		}
		if schedule.Paused == paused {
			return nil
		}
		times, err := cron.Parse(schedule.Cron)
		if err != nil {
			return err
		}
		schedule.Paused, schedule.NextAt = paused, times.Next(now)
		return nil
	})
	e.wakeScheduler()
	return err
}

// ScheduleStatus is a schedule and the result of its last tick.
type ScheduleStatus struct {
	*posthaste.Schedule
	LastStates map[posthaste.MessageID]posthaste.State // of the last tick's messages that still exist
}

// Schedule returns a schedule, or store.ErrNotFound.
func (e *Engine) Schedule(ctx context.Context, user, id string) (ScheduleStatus, error) {
	schedule, err := e.options.Store.Schedule(ctx, user, id)
	if err != nil {
		return ScheduleStatus{}, err
	}
	return e.scheduleStatus(ctx, schedule)
}

// Schedules returns a part of the user's schedules, see store.Store.
func (e *Engine) Schedules(ctx context.Context, user, after string) (store.List[ScheduleStatus], error) {
	part, err := e.options.Store.Schedules(ctx, user, after)
	if err != nil {
		return store.List[ScheduleStatus]{}, err
	}
	result := store.List[ScheduleStatus]{Items: make([]ScheduleStatus, len(part.Items)), Next: part.Next}
	for i, schedule := range part.Items {
		if result.Items[i], err = e.scheduleStatus(ctx, schedule); err != nil {
			return store.List[ScheduleStatus]{}, err
		}
	}
	return result, nil
}

func (e *Engine) scheduleStatus(ctx context.Context, schedule *posthaste.Schedule) (ScheduleStatus, error) {
	shown := *schedule
	shown.Settings = e.options.Limits.WithDefaults(shown.Settings) // as its ticks use them
	status := ScheduleStatus{Schedule: &shown, LastStates: map[posthaste.MessageID]posthaste.State{}}
	for _, id := range schedule.LastMessages {
		message, err := e.options.Store.Message(ctx, schedule.User, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return ScheduleStatus{}, err
		}
		status.LastStates[id] = message.State
	}
	return status, nil
}

// schedule fires ticks until the engine stops.
func (e *Engine) schedule() {
	const atOnce, schedulerHeartbeat = 100, 30 * time.Second
	DueWork[*posthaste.Schedule]{
		Due: func(ctx context.Context, busy []string) ([]*posthaste.Schedule, time.Time, error) {
			return e.options.Store.DueSchedules(ctx, e.now(), atOnce, busy...)
		},
		UserOf: func(schedule *posthaste.Schedule) string { return schedule.User },
		Do:     func(_ context.Context, due []*posthaste.Schedule) error { return e.tickAll(due, e.now()) },
		Failed: func(user string, err error) {
			e.options.Logger.Log(context.Background(), store.LogLevel(err), "schedule.failed", "user", user, "error", err)
		},
		Look:      e.scheduleChanged,
		Heartbeat: schedulerHeartbeat,
		Now:       e.options.Now,
	}.Run(e.claiming)
}

func (e *Engine) wakeScheduler() { LookAgain(e.scheduleChanged) }

// tickAll fires a user's schedules, earliest first; those due at the same time concurrently, so
// that they share commits. It continues after errors, unless the store is unavailable.
func (e *Engine) tickAll(schedules []*posthaste.Schedule, now time.Time) (err error) {
	for len(schedules) > 0 && !errors.Is(err, store.ErrUnavailable) {
		later := slices.IndexFunc(schedules, func(s *posthaste.Schedule) bool { return !s.NextAt.Equal(schedules[0].NextAt) })
		if later < 0 {
			later = len(schedules)
		}
		err = errors.Join(err, e.tickTogether(schedules[:later], now))
		schedules = schedules[later:]
	}
	return err
}

func (e *Engine) tickTogether(schedules []*posthaste.Schedule, now time.Time) error {
	errs := make([]error, len(schedules))
	var running sync.WaitGroup
	for i, schedule := range schedules {
		running.Go(func() {
			err := e.tick(schedule, now)
			if err != nil && !errors.Is(err, store.ErrConflict) {
				errs[i] = fmt.Errorf("schedule %s: %w", schedule.ID, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// tick fires a schedule once. One tick makes up for all that were missed. A tick that creates no
// message because its group does not exist stores the error in the schedule.
func (e *Engine) tick(schedule *posthaste.Schedule, now time.Time) error {
	times, err := cron.Parse(schedule.Cron)
	if err != nil {
		return err
	}
	after := *schedule
	after.LastAt, after.NextAt = schedule.NextAt, times.Next(now)
	after.LastMessages, after.Error = nil, ""
	submission, err := e.submission(e.claiming, schedule.User, Publication{
		Destination: schedule.Destination,
		Queue:       schedule.Queue,
		Body:        schedule.Body,
		Delay:       schedule.Delay,
		CallerIP:    schedule.CallerIP,
		scheduleID:  schedule.ID,
		Settings:    schedule.Settings,
	}, now)
	switch posthaste.ErrorCode(err) {
	case "":
		after.LastMessages = submission.IDs()
	case posthaste.CodeInternal, posthaste.CodeUnavailable:
		return err // retried
	default:
		after.Error = err.Error()
	}
	err = e.options.Store.Tick(e.claiming, now, schedule, &after, submission.Messages)
	if err == nil {
		e.options.Missed(missedTicks(times, schedule.NextAt, now, after.Error != ""))
		e.options.Observer.Accepted(len(submission.Messages))
		e.tracePublished(submission.Messages, "")
	}
	return err
}

// missedTicks returns how many ticks from due until now created no message, counting due only if
// it was refused. It counts up to a week of minutes.
func missedTicks(times cron.Schedule, due, now time.Time, refused bool) (missed int) {
	const enough = 7 * 24 * 60
	for at := times.Next(due); !at.IsZero() && !at.After(now) && missed < enough; at = times.Next(at) {
		missed++
	}
	if refused {
		missed++
	}
	return missed
}

// Dedup identifies a request that may be repeated. The zero value never matches.
type Dedup struct {
	ID        string // overrides ByContent
	ByContent bool   // the id is a hash of the content
}

// PutScheduleDedup is PutSchedule, but returns the earlier schedule's id if the request repeats
// one within store.DedupWindow (contract, U-7). A request with a schedule id is idempotent
// anyway.
func (e *Engine) PutScheduleDedup(ctx context.Context, schedule posthaste.Schedule, dedup Dedup) (id string, repeated bool, err error) {
	key := dedup.key(&schedule)
	if key == "" || schedule.ID != "" {
		id, err = e.PutSchedule(ctx, schedule)
		return id, false, err
	}
	now := e.now()
	for _, at := range []time.Time{now.Add(-store.DedupWindow), now} {
		earlier, err := e.options.Store.Schedule(ctx, schedule.User, scheduleIDOf(key, at))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", false, err
		}
		if err == nil && now.Sub(earlier.CreatedAt) < store.DedupWindow {
			return earlier.ID, true, nil
		}
	}
	schedule.ID = scheduleIDOf(key, now)
	id, err = e.PutSchedule(ctx, schedule)
	return id, false, err
}

// key returns the deduplication key, "" for none.
func (d Dedup) key(schedule *posthaste.Schedule) string {
	p := Publication{
		Destination:               schedule.Destination,
		Body:                      schedule.Body,
		DeduplicationID:           d.ID,
		ContentBasedDeduplication: d.ByContent,
		Settings:                  schedule.Settings,
	}
	key := p.dedupKey()
	if key != "" && d.ID == "" {
		key += "cron:" + schedule.Cron
	}
	return key
}

// scheduleIDOf derives the schedule's id from the key and its time window. Concurrent requests
// create the same schedule, and a repetition finds it under the id of this window or of the one
// before.
func scheduleIDOf(key string, at time.Time) string {
	window := at.UnixMilli() / store.DedupWindow.Milliseconds()
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", window, key))
	return "scd_" + hex.EncodeToString(sum[:12])
}
