package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// What a history changes besides messages and runs.

func (h *historian) changeGroup() {
	name := fmt.Sprintf("group-%d", h.rng.IntN(3))
	if h.chance(4) {
		h.tell("delete %s: %v", name, h.store.DeleteURLGroup(h.Context(), ann, name))
		return
	}
	endpoints := h.rng.IntN(3)
	h.updateGroup(name, func(g *posthaste.URLGroup) {
		g.Endpoints = nil // without any, the group goes
		for i := range endpoints {
			g.Endpoints = append(g.Endpoints, posthaste.Endpoint{URL: fmt.Sprintf("http://host-%d.example/", i)})
		}
	})
	h.tell("change %s", name)
}

func (h *historian) changeSchedule() {
	id := fmt.Sprintf("schedule-%d", h.rng.IntN(3))
	switch {
	case h.chance(5):
		h.tell("delete %s: %v", id, h.store.DeleteSchedule(h.Context(), ann, id))
	case h.chance(3):
		paused := h.chance(2)
		h.updateSchedule(id, func(s *posthaste.Schedule) { s.Paused = paused })
		h.tell("pause %s: %t", id, paused)
	default:
		next := h.schedule(id, h.now.Add(time.Duration(h.rng.IntN(60))*time.Second)).NextAt
		h.tell("schedule %s for %s", id, since(next))
	}
}

// tick lets all schedules that are due make a message, and again, which must do nothing.
func (h *historian) tick() {
	due, next, err := h.store.DueSchedules(h.Context(), h.now, plenty)
	if err != nil {
		h.Fatal(err)
	}
	h.tell("next tick %s", since(next))
	slices.SortFunc(due, func(a, b *posthaste.Schedule) int { return cmp.Compare(a.ID, b.ID) })
	for _, s := range due {
		m := h.message(through("queue-0"), func(m *posthaste.Message) { m.ScheduleID = s.ID })
		for range 2 {
			err := h.store.Tick(h.Context(), h.now, s, afterTick(s, m), []*posthaste.Message{m})
			h.tell("tick of %s at %s: %t", s.ID, since(s.NextAt), err == nil || !errors.Is(err, store.ErrConflict))
		}
	}
}

// cancelInSteps cancels messages as a step of a bulk action.
func (h *historian) cancelInSteps() {
	id := fmt.Sprintf("act-%d", h.rng.IntN(2))
	if _, err := h.store.Action(h.Context(), ann, id); errors.Is(err, store.ErrNotFound) || h.chance(3) {
		h.putAction(id, ann)
	}
	last := h.chance(4)
	step := &store.Step{ActionID: id, Advance: func(a *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure) {
		a.Count(processed, failures)
		if a.Cursor.Live += "."; last {
			a.CompletedAt = h.now
		}
	}}
	changed, err := h.store.Cancel(h.Context(), h.now, ann, h.someIDs(), step)
	h.tell("%s cancels %d, %v", id, len(changed), err)
}

// endRun lets one of the runs succeed, of which nothing more is asked for.
func (h *historian) endRun() {
	if len(h.runs) == 0 {
		return
	}
	i := h.rng.IntN(len(h.runs))
	if run := h.run(h.runs[i]); run.DeadLetterID == 0 {
		h.complete(run, posthaste.RunSuccess)
		h.runs = slices.Delete(h.runs, i, i+1)
		h.tell("end %s", run.ID)
	}
}

// notify ends the waits for an event, and keeps another for a run.
func (h *historian) notify() {
	notified := 0
	h.transact(func(tx store.RunTx) error {
		waiters, err := tx.Waiters(waiterOf(&posthaste.Run{}).Topic)
		for _, w := range waiters {
			tx.EndWait(w)
		}
		notified = len(waiters)
		return err
	})
	h.tell("notify %d", notified)
	if len(h.runs) > 0 {
		h.keepEvent(h.runs[h.rng.IntN(len(h.runs))], "event", "body")
	}
}

// retain trims what is older than some minutes, or is of an earlier day.
func (h *historian) retain() {
	inDLQ := func(run *posthaste.Run) bool { return h.run(run).DeadLetterID != 0 }
	h.runs = slices.DeleteFunc(h.runs, inDLQ) // its entry may be gone now
	before := h.now.Add(-time.Duration(h.rng.IntN(40)) * time.Minute)
	trimmed, err := h.trim(store.Horizon{Log: before, DeadLetters: before, Runs: before})
	h.tell("trimmed before %s: %+v, %v", since(before), trimmed, err)
}

// lookAtResources reads groups, schedules, bulk actions, waiters, and who has anything.
func (h *historian) lookAtResources() {
	groups, err := h.allGroups(ann)
	for _, g := range groups {
		h.tell("%s has %v since %s", g.Name, g.Endpoints, since(g.CreatedAt))
	}
	schedules, schedulesErr := h.allSchedules(ann)
	for _, s := range schedules {
		h.tell("%s is due %s, was %s with %v, paused %t", s.ID, since(s.NextAt), since(s.LastAt), s.LastMessages, s.Paused)
	}
	actions, actionsErr := h.store.Actions(h.Context(), ann)
	for _, a := range actions {
		h.tell("%s is at %q after %d", a.ID, a.Cursor.Live, a.Processed)
	}
	for _, run := range h.runs {
		waiters, err := h.store.RunWaiters(h.Context(), ann, run.Position)
		h.tell("%s waits %d times, %v", run.ID, len(waiters), err)
	}
	total, totalErr := h.store.Usage(h.Context(), "")
	h.tell("users %v", total.Users)
	h.ok(errors.Join(err, schedulesErr, actionsErr, totalErr))
}
