package storetest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/store"
)

var runAtomicPromises = []promise{
	{"a transaction that fails writes nothing", func(tr *trial) {
		s := tr.setScene()
		before := s.look(tr)
		for _, op := range runOps {
			err := tr.store.Transact(tr.Context(), tr.now, ann, s.change(op.write, errGivenUp))
			tr.wantErr(errGivenUp, err)
			tr.same("what is there after "+op.name, before, s.look(tr))
		}
	}},
	{"a transaction that fails writes nothing of all it did", func(tr *trial) {
		s := tr.setScene()
		before := s.look(tr)
		err := tr.store.Transact(tr.Context(), tr.now, ann, s.change(writeAll, errGivenUp))
		tr.wantErr(errGivenUp, err)
		tr.same("what is there", before, s.look(tr))
	}},
	{"a settlement that fails writes nothing of all its run did", func(tr *trial) {
		s := tr.setScene()
		_, first := tr.start()
		settlement := store.Delivered(tr.claimOne(first))
		tr.settleDown(ann)
		before := s.look(tr)
		change := s.change(writeAll, errGivenUp)
		settlement.UpdateRun = func(tx store.RunTx, _ *store.Settlement) error { return change(tx) }
		tr.wantErr(errGivenUp, errorOf(tr.store.Settle(tr.Context(), tr.now, settlement)))
		tr.same("what is there", before, s.look(tr))
	}},
	// The counterpart: all of these would be seen.
	{"each thing a transaction does is seen when it succeeds", func(tr *trial) {
		s := tr.setScene()
		before := s.look(tr)
		for n, op := range runOps {
			s.fresh = newMaker(600+uint64(n)).message(tr.now, delayed(never))
			tr.transact(s.change(op.write, nil))
			after := s.look(tr)
			if cmp.Equal(before, after) {
				tr.Errorf("%s: nothing has changed", op.name)
			}
			before = after
		}
	}},
}

// scene is a run with a bit of everything, and one in the DLQ.
type scene struct {
	run, failed *posthaste.Run
	waiter      *posthaste.Waiter
	first       *posthaste.Message // delivers the first entry of the run; waits
	fresh       *posthaste.Message // accepted by what succeeds
}

func (tr *trial) setScene() *scene {
	tr.Helper()
	s := &scene{}
	s.run, s.first = tr.start()
	s.failed, _ = tr.start()
	for _, m := range []posthaste.MessageID{s.run.FirstID, s.failed.FirstID} {
		tr.postpone(m)
	}
	tr.addToDLQ(s.failed)
	s.waiter = tr.await(s.run, until(tr.now.Add(time.Hour)))
	tr.keepEvent(s.run, "event", "kept")
	tr.answer(ann, "kept", "answer")
	tr.putAction("action", ann)
	s.fresh = newMaker(600+uint64(tr.makes.made)).message(tr.now, delayed(never))
	return s
}

// postpone lets a message wait for a retry that no test sees.
func (tr *trial) postpone(id posthaste.MessageID) {
	tr.Helper()
	claims, _ := tr.claim(plenty)
	for _, claim := range claims {
		if claim.Message.ID == id {
			tr.settle(store.RetryAt(claim, tr.now.Add(never), unreachable))
		} else {
			tr.release(claim)
		}
	}
	tr.settleDown(ann)
}

// runOp is one thing that a transaction can do.
type runOp struct {
	name  string
	write func(tx store.RunTx, s *scene, run, failed *posthaste.Run) error
}

var runOps = []runOp{
	{"starting a run", func(tx store.RunTx, s *scene, run, _ *posthaste.Run) error {
		return errorOf(begin(tx, posthaste.Run{
			User: ann, RunRef: posthaste.RunRef{ID: run.ID, URL: run.URL}, RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
		}, s.fresh))
	}},
	{"saving", func(tx store.RunTx, _ *scene, run, _ *posthaste.Run) error {
		run.State, run.CompletedAt = posthaste.RunCancelled, tx.Now()
		tx.Save(run)
		return nil
	}},
	{"logging", func(tx store.RunTx, s *scene, _, _ *posthaste.Run) error {
		tx.Log(s.first, posthaste.StateRunSuccess, "")
		return nil
	}},
	{"adding an entry", func(tx store.RunTx, _ *scene, run, _ *posthaste.Run) error {
		return tx.Append(run, posthaste.RunEntry{CallType: posthaste.CallStep}, nil)
	}},
	{"adding an entry that is delivered", func(tx store.RunTx, s *scene, run, _ *posthaste.Run) error {
		return appendTo(tx, run, s.fresh)
	}},
	{"accepting", func(tx store.RunTx, s *scene, run, _ *posthaste.Run) error {
		s.fresh.Run = &posthaste.RunLink{RunRef: run.RunRef, CallType: posthaste.CallFailure}
		return tx.Accept(s.fresh)
	}},
	{"remembering", func(tx store.RunTx, s *scene, run, _ *posthaste.Run) error {
		tx.PutIdempotencyRecord(run, "key", s.first.ID)
		return nil
	}},
	{"cancelling deliveries", func(tx store.RunTx, _ *scene, run, _ *posthaste.Run) error {
		return tx.CancelDeliveries(run, true)
	}},
	{"cancelling", func(tx store.RunTx, s *scene, _, failed *posthaste.Run) error {
		return errorOf(tx.Cancel(failed.FirstID))
	}},
	{"waiting", func(tx store.RunTx, _ *scene, run, _ *posthaste.Run) error {
		tx.Wait(waiterOf(run, waitingFor("another topic")))
		return nil
	}},
	{"ending a wait", func(tx store.RunTx, s *scene, _, _ *posthaste.Run) error {
		tx.EndWait(s.waiter)
		return nil
	}},
	{"keeping an event", func(tx store.RunTx, _ *scene, run, _ *posthaste.Run) error {
		tx.BufferEvent(run.Position, "event", []byte("more"))
		return nil
	}},
	{"taking an event", func(tx store.RunTx, _ *scene, run, _ *posthaste.Run) error {
		_, _, err := tx.TakeEvent(run.Position, "event")
		return err
	}},
	{"forgetting events", func(tx store.RunTx, _ *scene, run, _ *posthaste.Run) error {
		return tx.DropEvents(run.Position)
	}},
	{"adding to the DLQ", func(tx store.RunTx, s *scene, run, _ *posthaste.Run) error {
		addToDLQIn(tx, run, letterOf(s.first))
		return nil
	}},
	{"taking out of the DLQ", func(tx store.RunTx, _ *scene, _, failed *posthaste.Run) error {
		tx.RemoveFromDLQ(failed)
		return nil
	}},
	{"keeping an answer", func(tx store.RunTx, _ *scene, _, _ *posthaste.Run) error {
		tx.CacheResponse("key", []byte("answer"))
		return nil
	}},
	{"advancing an action", func(tx store.RunTx, _ *scene, _, _ *posthaste.Run) error {
		return tx.Advance(&store.Step{ActionID: "action", Advance: func(a *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure) {
			a.Count(processed, failures)
		}}, 1, nil)
	}},
}

// writeAll does everything there is, but accepts one message once.
func writeAll(tx store.RunTx, s *scene, run, failed *posthaste.Run) error {
	var errs []error
	for _, op := range runOps {
		if op.name != "accepting" && op.name != "adding an entry that is delivered" {
			errs = append(errs, op.write(tx, s, run, failed))
		}
	}
	return errors.Join(errs...)
}

// change is what a transaction does that writes and then ends so.
func (s *scene) change(write func(store.RunTx, *scene, *posthaste.Run, *posthaste.Run) error, end error) func(store.RunTx) error {
	return func(tx store.RunTx) error {
		run, runErr := tx.Run(s.run.Position)
		failed, failedErr := tx.Run(s.failed.Position)
		if err := errors.Join(runErr, failedErr); err != nil {
			return err
		}
		return errors.Join(write(tx, s, run, failed), end)
	}
}

// sight is all that can be seen of a scene.
type sight struct {
	Log      []store.Entry
	First    store.Status
	Runs     []*posthaste.Run
	Latest   *posthaste.Run
	DLQEntry []*posthaste.Run
	Entries  []posthaste.RunEntry
	Waiters  []*posthaste.Waiter
	Due      []store.DueWaiter
	Events   []string
	Memory   posthaste.MessageID
	Answers  [2][]byte
	Action   *posthaste.BulkAction
}

func (s *scene) look(tr *trial) sight {
	tr.Helper()
	seen := sight{
		Log:      tr.events(ann, logQuery(posthaste.Filter{OfRuns: true})),
		First:    tr.status(s.first),
		Runs:     tr.runs(ann, allRuns),
		Latest:   tr.latest(s.run.ID),
		DLQEntry: tr.runs(ann, allInDLQ),
		Entries:  tr.entries(s.run),
	}
	var waitersErr, dueErr, actionErr error
	seen.Waiters, waitersErr = tr.store.RunWaiters(tr.Context(), ann, s.run.Position)
	seen.Due, _, dueErr = tr.store.DueWaiters(tr.Context(), farFuture, plenty)
	seen.Action, actionErr = tr.store.Action(tr.Context(), ann, "action")
	tr.ok(errors.Join(waitersErr, dueErr, actionErr))
	tr.look(func(tx store.RunTx) (err error) {
		seen.Events = nil
		for kept := true; kept && err == nil; {
			var body []byte
			body, kept, err = tx.TakeEvent(s.run.Position, "event")
			seen.Events = append(seen.Events, string(body))
		}
		var memoryErr, keptErr, answerErr error
		seen.Memory, _, memoryErr = tx.IdempotencyRecord(s.run, "key")
		seen.Answers[0], keptErr = tx.CachedResponse("kept")
		seen.Answers[1], answerErr = tx.CachedResponse("key")
		return errors.Join(err, memoryErr, keptErr, answerErr)
	})
	return seen
}
