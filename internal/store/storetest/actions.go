package storetest

import (
	"errors"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var actionPromises = []promise{
	{"an action is kept as it was put", func(tr *trial) {
		want := tr.putAction("a", ann)
		got := must(tr.store.Action(tr.Context(), ann, "a"))(tr)
		tr.same("action", want, got)
		for _, other := range [][2]string{{anna, "a"}, {ann, "b"}} {
			tr.wantErr(store.ErrNotFound, errorOf(tr.store.Action(tr.Context(), other[0], other[1])))
		}
	}},
	{"actions are listed by id", func(tr *trial) {
		tr.putAction("b", ann)
		tr.putAction("a", ann)
		tr.putAction("c", anna)
		tr.wantActions("a", "b")
	}},
	{"an action is changed", func(tr *trial) {
		tr.putAction("a", ann)
		err := tr.store.UpdateAction(tr.Context(), ann, "a", func(a *posthaste.BulkAction) { a.Cursor.Live = "next" })
		if got, readErr := tr.store.Action(tr.Context(), ann, "a"); err != nil || readErr != nil || got.Cursor.Live != "next" {
			tr.Errorf("action %+v, %v, %v after a change of its cursor", got, err, readErr)
		}
		err = tr.store.UpdateAction(tr.Context(), ann, "b", func(*posthaste.BulkAction) {})
		tr.wantErr(store.ErrNotFound, err)
	}},
	{"unfinished actions of all users are found", func(tr *trial) {
		tr.putAction("a", ann)
		tr.putAction("b", anna)
		tr.putAction("c", ann)
		tr.finish("a")
		all := must(tr.store.UnfinishedActions(tr.Context()))(tr)
		var ids []string
		for _, a := range all {
			ids = append(ids, a.ID)
		}
		slices.Sort(ids)
		tr.same("unfinished actions", []string{"b", "c"}, ids)
	}},
	{"old finished actions are deleted", func(tr *trial) {
		tr.putAction("goes on", ann)
		tr.putAction("old", ann)
		tr.finish("old")
		tr.wait(time.Hour)
		tr.putAction("new", ann)
		tr.finish("new")
		tr.ok(tr.store.DeleteActions(tr.Context(), tr.now))
		tr.wantActions("goes on", "new")
	}},
	{"a step counts what it changed, with the change", checkSteps},
	{"a step of an action that has ended changes nothing", func(tr *trial) { checkLateSteps(tr, "action", store.ErrConflict) }},
	{"a step of an action that is gone changes nothing", func(tr *trial) {
		tr.putAction("gone", ann)
		tr.finish("gone")
		tr.ok(tr.store.DeleteActions(tr.Context(), tr.now.Add(time.Second)))
		checkLateSteps(tr, "gone", store.ErrNotFound)
	}},
}

// checkLateSteps makes each kind of change as a step of an action that has ended or is gone.
func checkLateSteps(tr *trial, action string, want error) {
	s := tr.setScene()
	failed, waits := tr.fail(tr.accept(), refused), tr.accept(delayed(time.Hour))
	letters, messages := []posthaste.DeadLetterID{failed.ID}, []posthaste.MessageID{waits.ID}
	tr.finish("action")
	step := &store.Step{ActionID: action, Advance: func(a *posthaste.BulkAction, _ int, _ []posthaste.ActionFailure) { a.Count(1, nil) }}
	remake := func(*posthaste.DeadLetter) (*posthaste.Message, error) { return s.fresh, nil }
	removeFromDLQ := func(tx store.RunTx, _ *scene, _, failed *posthaste.Run) error {
		tx.RemoveFromDLQ(failed)
		return tx.Advance(step, 1, nil)
	}
	ctx, log, runs := tr.Context(), tr.wholeLog(ann), s.look(tr)
	for _, late := range []struct {
		name string
		err  error
	}{
		{"Cancel", errorOf(tr.store.Cancel(ctx, tr.now, ann, messages, step))},
		{"DeleteDeadLetters", errorOf(tr.store.DeleteDeadLetters(ctx, ann, letters, fixedStep(step)))},
		{"RetryDeadLetters", errorOf(tr.store.RetryDeadLetters(ctx, tr.now, ann, letters, remake, fixedStep(step)))},
		{"Transact", tr.store.Transact(ctx, tr.now, ann, s.change(removeFromDLQ, nil))},
	} {
		if !errors.Is(late.err, want) {
			tr.Errorf("%s = %v, want %v", late.name, late.err, want)
		}
	}
	tr.same("log", log, tr.wholeLog(ann))
	tr.wantDeadLetters(failed)
	tr.same("runs and the action", runs, s.look(tr))
}

func checkSteps(tr *trial) {
	tr.putAction("a", ann)
	step := &store.Step{ActionID: "a", Advance: func(a *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure) {
		a.Count(processed, failures)
	}}
	deleted, retried, bad := tr.fail(tr.accept(), refused), tr.fail(tr.accept(), refused), tr.fail(tr.accept(), refused)
	waits, fresh := tr.accept(delayed(time.Hour)), tr.message(delayed(time.Hour))
	ids := []posthaste.MessageID{waits.ID, {1}}
	tr.ok(errorOf(tr.store.Cancel(tr.Context(), tr.now, ann, ids, step)))
	tr.wantCounts("a", 1)
	tr.ok(errorOf(tr.store.DeleteDeadLetters(tr.Context(), ann, []posthaste.DeadLetterID{deleted.ID, 7}, fixedStep(step))))
	tr.wantCounts("a", 2)
	remake := func(d *posthaste.DeadLetter) (*posthaste.Message, error) {
		if d.ID == bad.ID {
			return nil, errors.New("no such destination")
		}
		return fresh, nil
	}
	tr.ok(errorOf(tr.store.RetryDeadLetters(tr.Context(), tr.now, ann, []posthaste.DeadLetterID{retried.ID, bad.ID}, remake, fixedStep(step))))
	tr.wantCounts("a", 3, posthaste.ActionFailure{ID: bad.ID.String(), Error: "no such destination"})
}

// fixedStep is the same step whatever remains.
func fixedStep(step *store.Step) store.Progress {
	return func([]posthaste.DeadLetterID) *store.Step { return step }
}

func (tr *trial) putAction(id, user string) *posthaste.BulkAction {
	tr.Helper()
	a := &posthaste.BulkAction{
		ID:        id,
		User:      user,
		Kind:      posthaste.ActionRetry,
		Filter:    posthaste.Filter{Queues: []string{"q", "r"}, Until: posthaste.LastPosition(tr.now)},
		Overrides: posthaste.Overrides{Settings: posthaste.Settings{Labels: []string{"again"}}},
		Asked:     map[string][]string{"queueName": {"q,r"}},
		Total:     10,
		Cursor:    posthaste.ActionCursor{Low: 1, High: 2, Live: "begin"},
		CreatedAt: tr.now,
	}
	tr.ok(tr.store.PutAction(tr.Context(), a))
	kept := *a
	return &kept
}

func (tr *trial) finish(id string) {
	tr.Helper()
	tr.ok(tr.store.UpdateAction(tr.Context(), ann, id, func(a *posthaste.BulkAction) { a.CompletedAt = tr.now }))
}

func (tr *trial) wantActions(want ...string) {
	tr.Helper()
	all := must(tr.store.Actions(tr.Context(), ann))(tr)
	var ids []string
	for _, a := range all {
		ids = append(ids, a.ID)
	}
	tr.same("actions", want, ids)
}

func (tr *trial) wantCounts(id string, processed int, failures ...posthaste.ActionFailure) {
	tr.Helper()
	a := must(tr.store.Action(tr.Context(), ann, id))(tr)
	if a.Processed != processed || a.Failed != len(failures) || !slices.Equal(a.Failures, failures) {
		tr.Errorf("action counts %d processed, %d failed: %v; want %d and %v", a.Processed, a.Failed, a.Failures, processed, failures)
	}
}
