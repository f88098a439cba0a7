package storetest

import (
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runRetentionPromises = []promise{
	{"a run goes with all that belongs to it", checkRunForgotten},
	{"a run goes by its end", func(tr *trial) {
		before, _ := tr.start()
		at, _ := tr.start()
		after, _ := tr.start()
		going, _ := tr.start()
		tr.wait(day)
		tr.complete(before, posthaste.RunCancelled)
		tr.wait(time.Millisecond)
		horizon := tr.now
		tr.complete(at, posthaste.RunCancelled)
		tr.wait(time.Millisecond)
		tr.complete(after, posthaste.RunSuccess)
		tr.wait(day)
		tr.wantTrimmed(store.Horizon{Runs: horizon}, store.Trimmed{Runs: 1})
		tr.same("runs", []*posthaste.Run{tr.run(at), tr.run(after), tr.run(going)}, tr.runs(ann, allRuns))
	}},
	{"an entry of the DLQ of runs goes by its failure", func(tr *trial) {
		before, _ := tr.start(withEveryRunField)
		at, _ := tr.start(withEveryRunField)
		gone := tr.addToDLQ(before)
		tr.wait(time.Millisecond)
		horizon := tr.now
		kept := tr.addToDLQ(at)
		tr.wait(day)
		tr.wantTrimmed(store.Horizon{DeadLetters: horizon}, store.Trimmed{DeadLetters: 1})
		tr.wantNotInDLQ(gone.ID)
		tr.wantInDLQ(kept.ID, kept, tr.run(at))
		tr.same("DLQ", []*posthaste.Run{tr.run(at)}, tr.runs(ann, allInDLQ))
		tr.same("runs", []*posthaste.Run{tr.run(before), tr.run(at)}, tr.runs(ann, allRuns))
	}},
	{"entries of both DLQs are counted together", func(tr *trial) {
		tr.fail(tr.accept(), refused)
		run, _ := tr.start()
		tr.addToDLQ(run)
		tr.wait(day)
		tr.wantTrimmed(store.Horizon{DeadLetters: tr.now}, store.Trimmed{DeadLetters: 2})
		tr.wantTrimmed(store.Horizon{DeadLetters: tr.now}, store.Trimmed{})
	}},
	{"an id is that of the last run that is left", func(tr *trial) {
		failed, _ := tr.start(withID("again"))
		tr.addToDLQ(failed)
		ended, _ := tr.start(withID("again"))
		tr.complete(ended, posthaste.RunSuccess)
		tr.wait(day)
		tr.wantTrimmed(store.Horizon{Runs: tr.now}, store.Trimmed{Runs: 1})
		tr.same("latest run", tr.run(failed), tr.latest("again"))
		tr.wantTrimmed(store.Horizon{DeadLetters: tr.now, Runs: tr.now}, store.Trimmed{DeadLetters: 1, Runs: 1})
		tr.wantNoRun(ann, failed.RunRef)
		fresh, _ := tr.start(withID("again"))
		tr.same("latest run", fresh, tr.latest("again"))
	}},
	{"a run stays the latest when an earlier one goes", func(tr *trial) {
		ended, _ := tr.start(withID("again"))
		tr.complete(ended, posthaste.RunSuccess)
		going, _ := tr.start(withID("again"))
		tr.wait(day)
		tr.wantTrimmed(store.Horizon{Runs: tr.now}, store.Trimmed{Runs: 1})
		tr.same("latest run", going, tr.latest("again"))
	}},
	{"messages outlive their run as long as the log", func(tr *trial) {
		run, first := tr.start()
		callback := tr.acceptOf(run)
		claims := tr.claimThese(first, callback)
		tr.settle(store.Delivered(claims[0]))
		tr.complete(run, posthaste.RunSuccess)
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Runs: tr.now}, store.Trimmed{Runs: 1})
		tr.wantOutlives(first, "CREATED ACTIVE DELIVERED")
		tr.wantRunLog(run, "CREATED RUN_STARTED CREATED ACTIVE ACTIVE DELIVERED")
		tr.release(claims[1])
		tr.settle(store.Dropped(tr.claimOne(callback)))
		tr.wantTrimmed(store.Horizon{Log: tr.now}, store.Trimmed{Days: 1})
		tr.wantForgotten(first)
	}},
	{"a message that has not ended can be ended without its run", func(tr *trial) {
		run, first := tr.start()
		claim := tr.claimOne(first)
		tr.complete(run, posthaste.RunSuccess)
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now, Runs: tr.now}, store.Trimmed{Days: 1, Runs: 1})
		tr.release(claim)
		tr.settle(store.Dropped(tr.claimOne(first)))
		if got := tr.status(first).State; got != posthaste.StateCancelled {
			tr.Errorf("the message is %s, want %s", got, posthaste.StateCancelled)
		}
	}},
	{"a run that goes on loses nothing but its log", func(tr *trial) {
		run, first := tr.start()
		second := tr.step(run)
		for _, claim := range tr.claimThese(first, second) {
			tr.settle(store.Delivered(claim))
		}
		w, list := tr.await(run), tr.entries(run)
		tr.keepEvent(run, "event", "kept")
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now, DeadLetters: tr.now, Runs: tr.now}, store.Trimmed{Days: 1})
		tr.wantRunLog(run, "")
		tr.same("list", list, tr.entries(run))
		tr.wantEventWaiters("event", w)
		tr.wantKeptEvents(run, "event", "kept")
		tr.cancelDeliveries(run, true)
		third := tr.step(run)
		tr.settle(store.Delivered(tr.claimOne(third)))
	}},
	{"the end of a run is told however long it took", func(tr *trial) {
		run, first := tr.start()
		tr.settle(store.Delivered(tr.claimOne(first)))
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now}, store.Trimmed{Days: 1})
		tr.complete(run, posthaste.RunSuccess)
		tr.transact(func(tx store.RunTx) error {
			tx.Log(first, posthaste.StateRunSuccess, "")
			return nil
		})
		tr.wantRunLog(run, "RUN_SUCCESS")
		tr.wantTrimmed(store.Horizon{Runs: tr.now.Add(time.Millisecond)}, store.Trimmed{Runs: 1})
		tr.wantRunLog(run, "RUN_SUCCESS")
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now}, store.Trimmed{Days: 1})
		tr.wantRunLog(run, "")
		tr.wantForgotten(first)
	}},
	{"runs of others lose nothing", func(tr *trial) {
		mine, _ := tr.start(withID("same"))
		theirs, _ := tr.start(withID("same"), func(run *posthaste.Run) { run.User = anna })
		tr.complete(mine, posthaste.RunSuccess)
		tr.complete(theirs, posthaste.RunSuccess)
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now, DeadLetters: tr.now, Runs: tr.now}, store.Trimmed{Days: 1, Runs: 1})
		tr.wantNoRun(ann, mine.RunRef)
		tr.same("their runs", []*posthaste.Run{tr.run(theirs)}, tr.runs(anna, allRuns))
		if len(tr.entries(theirs)) != 1 {
			tr.Errorf("their run has %d entries left, want 1", len(tr.entries(theirs)))
		}
	}},
}

// checkRunForgotten looks for all that belonged to a run that was removed, in every
// way there is.
func checkRunForgotten(tr *trial) {
	run, first := tr.start(withEveryRunField)
	second := tr.step(run)
	topics := []posthaste.Topic{posthaste.EventTopic("event"), posthaste.RunTopic(run.RunRef)}
	for _, topic := range topics {
		tr.await(run, waitingFor(topic), until(tr.now.Add(time.Hour)))
	}
	tr.keepEvent(run, "event", "kept")
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		tx.PutIdempotencyRecord(run, "key", second.ID)
		return nil
	})
	for _, claim := range tr.claimThese(first, second) {
		tr.settle(store.Delivered(claim))
	}
	tr.complete(run, posthaste.RunCancelled)
	before := tr.run(run)
	tr.wait(day)
	tr.wantTrimmed(store.Horizon{Runs: tr.now}, store.Trimmed{Runs: 1})

	tr.wantNoRun(ann, run.RunRef)
	for _, field := range runFields {
		var filter posthaste.Filter
		if !field.ask(&filter, before) {
			tr.Fatalf("the run has no %s to be found by", field.name)
		}
		if found := tr.runs(ann, withFilter(allRuns, filter)); len(found) > 0 {
			tr.Errorf("the run is found by its %s", field.name)
		}
	}
	tr.wantRunWaiters(run)
	for _, topic := range topics {
		tr.wantWaitersFor(topic)
	}
	tr.wantDueWaiters(plenty, time.Time{})
	tr.wantKeptEvents(run, "event")
	if list, err := tr.store.RunEntries(tr.Context(), ann, run.Position, 0, -1); len(list) > 0 || err != nil && !errors.Is(err, store.ErrNotFound) {
		tr.Errorf("its list has %d entries left, %v", len(list), err)
	}
	tr.look(func(tx store.RunTx) error {
		tr.wantRecall(tx, run, "key", posthaste.MessageID{})
		return nil
	})
}

// wantOutlives wants a message, whose body may be gone, with its log.
func (tr *trial) wantOutlives(m *posthaste.Message, log string) {
	tr.Helper()
	tr.wantLog(m, log)
	got := *tr.status(m).Message
	got.Body = m.Body
	tr.same("message", m, &got)
}
