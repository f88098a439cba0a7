package workflow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/storetest"
)

// checkBody requires an attempt that is made again to deliver the same (contract,
// workflows 3.2).
func (w *world) checkBody(m *posthaste.Message) {
	first, again := w.bodies[m.ID]
	if again && first != string(m.Body) {
		w.t.Errorf("message %s delivers %s, and %s before", m.ID, m.Body, first)
	}
	w.bodies[m.ID] = string(m.Body)
}

// checkDelivery requires a step to be delivered as SDKs expect it (contract, workflows
// 2.5 and 3.2).
func (w *world) checkDelivery(v visit) {
	h := v.message.Header
	for name, want := range map[string]string{
		"Upstash-Workflow-Runid":       v.message.Run.ID,
		"Upstash-Workflow-Url":         site + v.path,
		"Upstash-Workflow-Sdk-Version": "1",
		"Upstash-Workflow-Calltype":    "step",
		"Upstash-Workflow-Createdat":   strconv.FormatInt(v.message.Run.CreatedAt.UnixMilli(), 10),
		"Upstash-Workflow-Init":        strconv.FormatBool(len(v.list) == 1),
		"Content-Type":                 "application/json",
	} {
		if got := h.Get(name); got != want && len(v.list) > 0 {
			w.t.Errorf("%s is sent with %s: %q, want %q", v, name, got, want)
		}
	}
	if len(v.list) == 0 {
		return
	}
	if last := v.list[len(v.list)-1]; last.MessageID != v.message.ID.String() {
		w.t.Errorf("%s by message %s ends with the entry of %s", v, v.message.ID, last.MessageID)
	}
	w.checkList(v)
}

// checkList requires a delivered list to be a beginning of the longest one, or to
// continue it, and to have steps only (contract, workflows D 13).
func (w *world) checkList(v visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := w.lists[v.message.Run.Position]
	for i, entry := range v.list {
		if entry.CallType != "step" {
			w.t.Errorf("%s delivers an entry of type %q", v, entry.CallType)
		}
		if i < len(longest) && (!bytes.Equal(entry.Body, longest[i].Body) || i > 0 && entry.MessageID != longest[i].MessageID) {
			w.t.Errorf("%s: entry %d is %s %s, and was %s %s", v, i, entry.MessageID, entry.Body, longest[i].MessageID, longest[i].Body)
		}
	}
	if len(v.list) > len(longest) {
		w.lists[v.message.Run.Position] = v.list
	}
}

// audit proves the promises on all runs that are stored.
func (w *world) audit() {
	w.t.Helper()
	storetest.Audit(w.t, w.store, user, nil)
	events := w.runEvents()
	lives := map[posthaste.MessageID]posthaste.State{}
	told := map[posthaste.Position][]posthaste.State{}
	for _, e := range events {
		if e.State.OfRun() {
			told[e.Message.Run.Position] = append(told[e.Message.Run.Position], e.State)
		} else {
			lives[e.MessageID] = e.State
		}
	}
	for _, run := range w.runs() {
		if err := errors.Join(w.auditRun(run, lives), auditStates(run, told[run.Position])); err != nil {
			w.t.Errorf("audit of run %s of %s: %v", run.ID, run.CreatedAt, err)
		}
	}
}

// auditStates requires a run to be logged as started, and as ended once if it has.
func auditStates(run *posthaste.Run, told []posthaste.State) error {
	want := []posthaste.State{posthaste.State(posthaste.RunStarted)}
	if !run.Active() {
		want = append(want, posthaste.State(run.State))
	}
	if !slices.Equal(told, want) {
		return fmt.Errorf("it is logged as %v, want %v", told, want)
	}
	return nil
}

func (w *world) auditRun(run *posthaste.Run, lives map[posthaste.MessageID]posthaste.State) error {
	list := w.list(run)
	errs := []error{auditList(list)}
	if !run.Active() {
		errs = append(errs, w.auditEnd(run), auditMessages(run, list, lives))
	}
	return errors.Join(append(errs, w.auditDLQ(run))...)
}

// auditList requires what is in a list to be there once, and the plans of a group to
// come before its results (contract, workflows 3.3 and 4.3).
func auditList(list []posthaste.RunEntry) error {
	seen := map[string]bool{}
	for _, entry := range list[1:] {
		step, isStep := parseStep(entry.Body)
		if entry.CallType != posthaste.CallStep || !isStep {
			continue
		}
		key := fmt.Sprintf("%t %d", step.isPlan(), step.about())
		if seen[key] {
			return fmt.Errorf("entry %d repeats %s", entry.Index, step)
		}
		seen[key] = true
		if planned := fmt.Sprintf("%t %d", true, step.ID); !step.isPlan() && step.Concurrent > 1 && !seen[planned] {
			return fmt.Errorf("entry %d is the result of %s, which was not planned before", entry.Index, step)
		}
	}
	return nil
}

// auditEnd requires a run that has ended to wait for nothing but the runs that it
// invoked and that go on, and to keep no events unless it may be resumed.
func (w *world) auditEnd(run *posthaste.Run) error {
	waiters, err := w.store.RunWaiters(context.Background(), user, run.Position)
	for _, waiter := range waiters {
		if waiter.Invoked == nil {
			err = errors.Join(err, fmt.Errorf("it waits for %s", waiter.Topic))
		} else if invoked, readErr := w.store.Run(context.Background(), user, waiter.Invoked.Position); readErr != nil || !invoked.Active() {
			err = errors.Join(err, readErr, fmt.Errorf("it waits for run %s, which has ended", waiter.Invoked.ID))
		}
	}
	if run.State == posthaste.RunFailed && run.Successor == nil && !w.deleted[run.DeadLetterID] {
		return err
	}
	return errors.Join(err, w.auditEvents(run))
}

func (w *world) auditEvents(run *posthaste.Run) error {
	return w.store.Transact(context.Background(), w.setup.now(), user, func(tx store.RunTx) error {
		for _, f := range w.setup.flows {
			for _, s := range slices.Concat(f...) {
				if _, kept, err := tx.TakeEvent(run.Position, s.event); kept || err != nil {
					return errors.Join(err, fmt.Errorf("event %q is kept", s.event))
				}
			}
		}
		return nil
	})
}

// auditMessages requires the messages of a run that has ended to have ended too, and
// the one that failed it to have failed.
func auditMessages(run *posthaste.Run, list []posthaste.RunEntry, lives map[posthaste.MessageID]posthaste.State) error {
	var errs []error
	for _, entry := range list {
		if state, known := lives[entry.MessageID]; known && !state.Terminal() {
			errs = append(errs, fmt.Errorf("the message of entry %d is %s", entry.Index, state))
		}
	}
	if state := lives[run.FirstID]; !state.Terminal() {
		errs = append(errs, fmt.Errorf("its first message is %q", state))
	}
	if failed := run.State == posthaste.RunFailed; failed && lives[run.FailedID] != posthaste.StateFailed {
		errs = append(errs, fmt.Errorf("the message that failed it is %s", lives[run.FailedID]))
	}
	return errors.Join(errs...)
}

// auditDLQ requires a run to be in the DLQ if it has failed and nothing took its
// place, and only then.
func (w *world) auditDLQ(run *posthaste.Run) error {
	page, err := w.Failed(context.Background(), user, store.RunQuery{
		Filter: posthaste.Filter{Positions: []posthaste.Position{run.Position}}, High: posthaste.MaxPosition, Limit: 2,
	})
	inDLQ := run.State == posthaste.RunFailed && run.Successor == nil && !w.deleted[run.DeadLetterID]
	if err != nil || (len(page.Runs) == 1) != inDLQ || len(page.Runs) > 1 {
		return fmt.Errorf("it is %s, replaced by %v, and has %d entries in the DLQ, %v", run.State, run.Successor, len(page.Runs), err)
	}
	return nil
}

// runs returns all runs, the oldest first.
func (w *world) runs() []*posthaste.Run {
	w.t.Helper()
	var all []*posthaste.Run
	query := store.RunQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	for {
		page, err := w.store.Runs(context.Background(), user, query)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, page.Runs...)
		if !page.More {
			return all
		}
		query.Low = page.Next
	}
}

// runEvents returns the log of all runs, the oldest first.
func (w *world) runEvents() []store.Entry {
	w.t.Helper()
	var all []store.Entry
	query := store.EventQuery{Filter: posthaste.Filter{OfRuns: true}, High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	for {
		page, err := store.ReadEvents(context.Background(), w.store, user, query)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if !page.More {
			return all
		}
		query.Low = page.Next
	}
}
