package storetest

import (
	"errors"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runPromises = []promise{
	{"a run that was started can be read", func(tr *trial) {
		run, first := tr.start()
		latest := must(tr.store.LatestRun(tr.Context(), ann, run.ID))(tr)
		tr.same("latest run", run, latest)
		tr.same("runs", []*posthaste.Run{run}, tr.runs(ann, allRuns))
		if run.Entries != 1 || run.FirstID != first.ID || !run.Active() || !run.CreatedAt.Equal(tr.now) {
			tr.Errorf("run has %d entries, begins with %s, is %s of %v", run.Entries, run.FirstID, run.State, run.CreatedAt)
		}
	}},
	{"every field is kept", func(tr *trial) {
		var want posthaste.Run
		run, first := tr.start(withEveryRunField, func(run *posthaste.Run) { want = *run })
		want.RunRef, want.FirstID, want.Entries, want.ListBytes = run.RunRef, run.FirstID, 1, len(first.Body)
		tr.same("run", &want, run)
	}},
	{"every change that is saved is kept", func(tr *trial) {
		run, _ := tr.start()
		var want posthaste.Run
		tr.transact(func(tx store.RunTx) error {
			changed, err := tx.Run(run.Position)
			if err != nil {
				return err
			}
			withEveryRunField(changed)
			changed.Entries, changed.ListBytes = run.Entries, run.ListBytes
			tx.Save(changed)
			want = *changed
			return nil
		})
		tr.same("run", &want, tr.run(run))
	}},
	{"a change that is not saved is not kept", func(tr *trial) {
		run, _ := tr.start(withEveryRunField)
		tr.transact(func(tx store.RunTx) error {
			changed, err := tx.Run(run.Position)
			if err != nil {
				return err
			}
			changed.State, changed.Reported.State, changed.Successor.ID = posthaste.RunCancelled, posthaste.CallbackFailed, "changed"
			return nil
		})
		tr.same("run", run, tr.run(run))
	}},
	{"what is not there is not found", func(tr *trial) {
		run, _ := tr.start()
		tr.wantNoRun(ann, posthaste.RunRef{ID: "unknown", Position: run.Position + 1})
		tr.wantNoRun(ann, posthaste.RunRef{ID: run.ID[:len(run.ID)-1], Position: run.Position - 1})
	}},
	{"an id is that of its last run", func(tr *trial) {
		earlier, _ := tr.start(withID("again"))
		other, _ := tr.start(withID("again and again"))
		later, _ := tr.start(withID("again"))
		tr.same("latest run", later.Position, tr.latest("again").Position)
		tr.same("latest run of another id", other.Position, tr.latest("again and again").Position)
		tr.same("earlier run", earlier, tr.run(earlier))
		tr.same("runs", []*posthaste.Run{earlier, other, later}, tr.runs(ann, allRuns))
	}},
	{"a transaction sees what it started", func(tr *trial) {
		before, _ := tr.start(withID("again"))
		first := tr.message()
		tr.transact(func(tx store.RunTx) error {
			run, err := begin(tx, tr.runOf(withID("again")), first)
			if err != nil {
				return err
			}
			return errors.Join(
				wantObject(run)(tx.Run(run.Position)),
				wantObject(run)(tx.LatestRun("again")),
				wantOther(run)(tx.Run(before.Position)),
			)
		})
	}},
	{"a run is one object in a transaction", func(tr *trial) {
		ref, _ := tr.start(withID("one"))
		letter := tr.addToDLQ(ref)
		tr.transact(func(tx store.RunTx) error {
			run, err := tx.LatestRun("one")
			if err != nil {
				return err
			}
			_, inDLQ, err := tx.DLQEntry(letter.ID)
			return errors.Join(
				wantObject(run)(inDLQ, err),
				wantObject(run)(tx.Run(ref.Position)),
				wantObject(run)(tx.LatestRun("one")),
			)
		})
	}},
	{"a transaction has the time it is told", func(tr *trial) {
		tr.wait(123 * time.Hour)
		tr.transact(func(tx store.RunTx) error {
			if !tx.Now().Equal(tr.now) {
				return fmt.Errorf("it is %v in the transaction, want %v", tx.Now(), tr.now)
			}
			return nil
		})
	}},
	{"positions are given once and increase", checkNextPositions},
	{"a run's states are in the log", func(tr *trial) {
		run, first := tr.start()
		tr.wait(time.Minute)
		tr.transact(func(tx store.RunTx) error {
			tx.Log(first, posthaste.StateRunFailed, "for a reason")
			return nil
		})
		entries := tr.events(ann, logQuery(posthaste.Filter{OfRuns: true, RunIDs: []string{run.ID}}))
		tr.same("log of the run", "CREATED RUN_STARTED RUN_FAILED", statesText(entries))
		failed := entries[len(entries)-1]
		want := posthaste.Event{
			Position: posthaste.Position(0).Next(tr.now, first.ID.Slot()), MessageID: first.ID, State: posthaste.StateRunFailed, Error: "for a reason",
		}
		tr.same("event", want, failed.Event)
		tr.same("message of the event", first, failed.Message)
	}},
	{"what belongs to one user does not exist for another", checkRunsOfOthers},
}

// checkNextPositions takes positions in transactions that succeed and fail, with
// events between them.
func checkNextPositions(tr *trial) {
	var taken []posthaste.Position
	take := func(result error) {
		tr.Helper()
		var own []posthaste.Position
		err := tr.store.Transact(tr.Context(), tr.now, ann, func(tx store.RunTx) error {
			own = []posthaste.Position{tx.NextPosition(0), tx.NextPosition(0)}
			return result
		})
		if !errors.Is(err, result) {
			tr.Fatalf("Transact = %v, want %v", err, result)
		}
		taken = append(taken, own...)
	}
	for _, passed := range []time.Duration{0, time.Second, -time.Hour, 0} {
		tr.wait(passed)
		take(nil)
		taken = append(taken, tr.logOf(tr.accept())[0].Position)
		take(errGivenUp)
		taken = append(taken, tr.logOf(tr.accept(ownedBy(anna)))[0].Position)
	}
	for i := 1; i < len(taken); i++ {
		if taken[i] <= taken[i-1] {
			tr.Errorf("position %d was given after %d", taken[i], taken[i-1])
		}
	}
}

// checkRunsOfOthers looks for all that belongs to a run of anna as ann, who has a
// run with the same id, and as someone whose name is the beginning of hers.
func checkRunsOfOthers(tr *trial) {
	ownedByAnna := func(run *posthaste.Run) { run.User = anna }
	theirs, first := tr.start(withID("same"), ownedByAnna)
	waits := waiterOf(theirs)
	letter := letterOf(first)
	tr.transactAs(anna, func(tx store.RunTx) error {
		run, err := tx.Run(theirs.Position)
		if err != nil {
			return err
		}
		tx.Wait(waits)
		tx.BufferEvent(run.Position, "event", []byte("theirs"))
		tx.PutIdempotencyRecord(run, "key", first.ID)
		tx.CacheResponse("key", []byte("theirs"))
		letter.ID = posthaste.DeadLetterID(tx.NextPosition(run.Slot()))
		run.DeadLetterID, run.State = letter.ID, posthaste.RunFailed
		tx.AddToDLQ(run, letter)
		tx.Save(run)
		return nil
	})
	mine, _ := tr.start(withID("same"))
	tr.same("latest run", mine.Position, tr.latest("same").Position)
	for _, user := range []string{ann, "an", anna + "a"} {
		tr.wantNoRun(user, posthaste.RunRef{ID: "same of " + user, Position: theirs.Position})
		tr.wantNothing(user, theirs, waits, letter, first)
	}
	tr.same("their run", []*posthaste.Run{tr.run(theirs)}, tr.runs(anna, allRuns))
}

// wantNothing requires that a user sees nothing of a run of another.
func (tr *trial) wantNothing(user string, run *posthaste.Run, w *posthaste.Waiter, d *posthaste.DeadLetter, m *posthaste.Message) {
	tr.Helper()
	for _, query := range []store.RunQuery{allRuns, allInDLQ} {
		for _, found := range tr.runs(user, query) {
			if found.User != user {
				tr.Errorf("runs of %q show one of %q", user, found.User)
			}
		}
	}
	waiters, err := tr.store.EventWaiters(tr.Context(), user, "event")
	if err != nil || len(waiters) > 0 {
		tr.Errorf("EventWaiters of %q = %v, %v, want none", user, waiters, err)
	}
	if waiters, err = tr.store.RunWaiters(tr.Context(), user, run.Position); err != nil || len(waiters) > 0 {
		tr.Errorf("RunWaiters of %q = %v, %v, want none", user, waiters, err)
	}
	if entries, err := tr.store.RunEntries(tr.Context(), user, run.Position, 0, -1); len(entries) > 0 {
		tr.Errorf("RunEntries of %q = %v, %v, want none", user, entries, err)
	}
	tr.lookAs(user, func(tx store.RunTx) error {
		_, runErr := tx.Run(run.Position)
		_, waiterErr := tx.Waiter(run.Position, w.Position)
		_, _, entryErr := tx.DLQEntry(d.ID)
		_, _, messageErr := tx.Message(m.ID)
		for what, err := range map[string]error{"Run": runErr, "Waiter": waiterErr, "DLQEntry": entryErr, "Message": messageErr} {
			tr.wantErr(store.ErrNotFound, err, what)
		}
		byTopic, topicErr := tx.Waiters(w.Topic)
		ofRun, ofRunErr := tx.RunWaiters(run.Position)
		entries, _ := tx.Entries(run.Position, -1)
		_, kept, keptErr := tx.TakeEvent(run.Position, "event")
		_, known, knownErr := tx.IdempotencyRecord(run, "key")
		answer, answerErr := tx.CachedResponse("key")
		cancelled, cancelErr := tx.Cancel(m.ID)
		if len(byTopic)+len(ofRun)+len(entries) > 0 || kept || known || answer != nil || cancelled {
			tr.Errorf("a transaction of %q sees %d and %d waiters, %d entries, event %t, memory %t, answer %q, cancels %t; all of another",
				user, len(byTopic), len(ofRun), len(entries), kept, known, answer, cancelled)
		}
		return errors.Join(topicErr, ofRunErr, keptErr, knownErr, answerErr, cancelErr)
	})
}

// wantNoRun requires that a user has no run at a position and none with an id.
func (tr *trial) wantNoRun(user string, ref posthaste.RunRef) {
	tr.Helper()
	_, readErr := tr.store.Run(tr.Context(), user, ref.Position)
	_, latestErr := tr.store.LatestRun(tr.Context(), user, ref.ID)
	var txErr, txLatestErr error
	tr.lookAs(user, func(tx store.RunTx) error {
		_, txErr = tx.Run(ref.Position)
		_, txLatestErr = tx.LatestRun(ref.ID)
		return nil
	})
	for what, err := range map[string]error{
		"Run": readErr, "LatestRun": latestErr, "Run of a transaction": txErr, "LatestRun of a transaction": txLatestErr,
	} {
		tr.wantErr(store.ErrNotFound, err, what)
	}
}

// wantObject returns an error unless what a transaction returns is the same object.
func wantObject(want *posthaste.Run) func(*posthaste.Run, error) error {
	return func(got *posthaste.Run, err error) error {
		if err == nil && got != want {
			err = fmt.Errorf("run %s is two objects", want.ID)
		}
		return err
	}
}

// wantOther returns an error unless what a transaction returns is another run.
func wantOther(than *posthaste.Run) func(*posthaste.Run, error) error {
	return func(got *posthaste.Run, err error) error {
		if err == nil && (got == than || got.Position == than.Position) {
			err = fmt.Errorf("run %s is taken for another one", than.ID)
		}
		return err
	}
}
