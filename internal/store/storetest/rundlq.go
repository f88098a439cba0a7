package storetest

import (
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runDLQPromises = []promise{
	{"a run that failed is in the DLQ of runs", func(tr *trial) {
		run, first := tr.start(withEveryRunField)
		letter := tr.addToDLQ(run)
		want := &posthaste.DeadLetter{ID: letter.ID, Message: first, Error: refused.Error, Response: refused.Response}
		tr.wantInDLQ(letter.ID, want, tr.run(run))
		runs, letters, err := readRuns(tr.Context(), tr.store, ann, allInDLQ)
		if err != nil {
			tr.Fatal(err)
		}
		tr.same("runs of the DLQ", []*posthaste.Run{tr.run(run)}, runs)
		tr.same("entries of the DLQ", []*posthaste.DeadLetter{want}, letters)
		tr.wantDeadLetters()
	}},
	{"an entry that was never there is not found", func(tr *trial) {
		run, _ := tr.start()
		letter := tr.addToDLQ(run)
		tr.wantNotInDLQ(letter.ID - 1)
		tr.wantNotInDLQ(letter.ID + 1)
		tr.wantNotInDLQ(posthaste.DeadLetterID(run.Position))
	}},
	{"a run that was taken out of the DLQ is not found there", func(tr *trial) {
		gone, _ := tr.start()
		left, _ := tr.start()
		letter := tr.addToDLQ(gone)
		tr.addToDLQ(left)
		tr.transact(func(tx store.RunTx) error {
			_, run, err := tx.DLQEntry(letter.ID)
			if err != nil {
				return err
			}
			tx.RemoveFromDLQ(run)
			if _, _, err := tx.DLQEntry(letter.ID); !errors.Is(err, store.ErrNotFound) {
				tr.Errorf("DLQEntry of an entry that this transaction removed = %v, want ErrNotFound", err)
			}
			return nil
		})
		tr.wantNotInDLQ(letter.ID)
		tr.same("DLQ", []*posthaste.Run{tr.run(left)}, tr.runs(ann, allInDLQ))
		tr.same("runs", []*posthaste.Run{tr.run(gone), tr.run(left)}, tr.runs(ann, allRuns))
		if got := tr.run(gone).DeadLetterID; got != letter.ID {
			tr.Errorf("the run says its entry was %s, want %s still", got, letter.ID)
		}
	}},
	{"a run that is restarted leaves the DLQ with that", func(tr *trial) {
		failed, _ := tr.start()
		letter := tr.addToDLQ(failed)
		fresh := tr.message()
		tr.transact(func(tx store.RunTx) error { return restart(tx, letter.ID, tr.runOf(withID("fresh")), fresh) })
		successor := tr.latest("fresh")
		tr.wantNotInDLQ(letter.ID)
		tr.same("successor", &successor.RunRef, tr.run(failed).Successor)
		tr.same("origin", &posthaste.RunOrigin{RunRef: failed.RunRef, DeadLetterID: letter.ID}, successor.Origin)
	}},
	{"a run that is in the DLQ goes on to change", func(tr *trial) {
		run, _ := tr.start()
		letter := tr.addToDLQ(run)
		for _, state := range posthaste.CallbackStates {
			changed := tr.report(run, state)
			tr.wantInDLQ(letter.ID, letter, changed)
			tr.same("found in the DLQ", []*posthaste.Run{changed}, tr.runs(ann, withFilter(allInDLQ, posthaste.Filter{
				CallbackStates: []posthaste.CallbackState{state},
			})))
		}
	}},
	{"a run that fails and is reported at once is found by both", func(tr *trial) {
		run, first := tr.start()
		tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
			run.Reported = &posthaste.RunCallback{State: posthaste.CallbackInProgress}
			addToDLQIn(tx, run, letterOf(first))
			return nil
		})
		tr.same("found in the DLQ", []*posthaste.Run{tr.run(run)}, tr.runs(ann, withFilter(allInDLQ, posthaste.Filter{
			CallbackStates: []posthaste.CallbackState{posthaste.CallbackInProgress}, Statuses: []int{refused.Response.Status},
		})))
	}},
}

var runResponsePromises = []promise{
	{"an answer is kept for a while", func(tr *trial) {
		tr.wantAnswer(ann, "key", nil)
		tr.answer(ann, "key", "answer")
		for _, passed := range []time.Duration{0, time.Hour, store.ResponseWindow - time.Hour - time.Millisecond} {
			tr.wait(passed)
			tr.wantAnswer(ann, "key", []byte("answer"))
		}
		tr.wait(time.Millisecond)
		tr.wantAnswer(ann, "key", nil)
	}},
	{"the last answer counts", func(tr *trial) {
		tr.answer(ann, "key", "first")
		tr.wait(time.Hour)
		tr.answer(ann, "key", "second")
		tr.wantAnswer(ann, "key", []byte("second"))
		tr.wait(store.ResponseWindow - time.Millisecond)
		tr.wantAnswer(ann, "key", []byte("second"))
		tr.answer(ann, "key", "third")
		tr.wantAnswer(ann, "key", []byte("third"))
	}},
	{"answers under different keys do not meet", func(tr *trial) {
		tr.answer(ann, "key", "ann's")
		tr.answer(anna, "key", "anna's")
		tr.answer(ann, "key2", "another")
		tr.answer(ann, "", "no key")
		tr.wantAnswer(ann, "key", []byte("ann's"))
		tr.wantAnswer(anna, "key", []byte("anna's"))
		tr.wantAnswer(ann, "key2", []byte("another"))
		tr.wantAnswer(ann, "", []byte("no key"))
		tr.wantAnswer(ann, "Key", nil)
	}},
	{"what is done as a part of a bulk action is counted with it", func(tr *trial) {
		tr.putAction("a", ann)
		run, _ := tr.start()
		step := &store.Step{ActionID: "a", Advance: func(a *posthaste.BulkAction, processed int, failures []posthaste.ActionFailure) {
			a.Count(processed, failures)
		}}
		failure := posthaste.ActionFailure{ID: "7-0", Error: "no"}
		tr.transact(func(tx store.RunTx) error { return tx.Advance(step, 2, nil) })
		tr.wantCounts("a", 2)
		tr.transact(func(tx store.RunTx) error {
			return errors.Join(tx.Advance(step, 1, nil), tx.Advance(step, 1, []posthaste.ActionFailure{failure}))
		})
		tr.wantCounts("a", 4, failure)
		tr.transact(func(tx store.RunTx) error { return tx.Advance(nil, 100, nil) })
		tr.wantCounts("a", 4, failure)

		for _, unknown := range []struct{ user, id string }{{ann, "b"}, {anna, "a"}} {
			err := tr.store.Transact(tr.Context(), tr.now, unknown.user, func(tx store.RunTx) error {
				tx.CacheResponse("key", []byte("answer"))
				return tx.Advance(&store.Step{ActionID: unknown.id, Advance: step.Advance}, 1, nil)
			})
			tr.wantErr(store.ErrNotFound, err)
			tr.wantAnswer(unknown.user, "key", nil)
		}
		tr.same("run", run, tr.run(run))
	}},
}

// restart takes a run out of the DLQ and starts another in its place.
func restart(tx store.RunTx, id posthaste.DeadLetterID, made posthaste.Run, first *posthaste.Message) error {
	_, failed, err := tx.DLQEntry(id)
	if err != nil {
		return err
	}
	made.Origin = &posthaste.RunOrigin{RunRef: failed.RunRef, DeadLetterID: id}
	fresh, err := begin(tx, made, first)
	if err != nil {
		return err
	}
	failed.Successor = &fresh.RunRef
	tx.RemoveFromDLQ(failed)
	tx.Save(failed)
	return nil
}

// report says where the failure callback of a run stands, and returns the run.
func (tr *trial) report(run *posthaste.Run, state posthaste.CallbackState) *posthaste.Run {
	tr.Helper()
	return tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		run.Reported = &posthaste.RunCallback{State: state}
		return nil
	})
}

func withFilter(query store.RunQuery, filter posthaste.Filter) store.RunQuery {
	query.Filter = filter
	return query
}

func (tr *trial) wantInDLQ(id posthaste.DeadLetterID, want *posthaste.DeadLetter, of *posthaste.Run) {
	tr.Helper()
	tr.look(func(tx store.RunTx) error {
		letter, run, err := tx.DLQEntry(id)
		tr.same("entry of the DLQ", want, letter)
		tr.same("run of the entry", of, run)
		return err
	})
}

func (tr *trial) wantNotInDLQ(id posthaste.DeadLetterID) {
	tr.Helper()
	tr.look(func(tx store.RunTx) error {
		if _, _, err := tx.DLQEntry(id); !errors.Is(err, store.ErrNotFound) {
			tr.Errorf("DLQEntry = %v, want ErrNotFound", err)
		}
		return nil
	})
}

func (tr *trial) answer(user, key, answer string) {
	tr.Helper()
	tr.transactAs(user, func(tx store.RunTx) error {
		tx.CacheResponse(key, []byte(answer))
		return nil
	})
}

func (tr *trial) wantAnswer(user, key string, want []byte) {
	tr.Helper()
	tr.lookAs(user, func(tx store.RunTx) error {
		answer, err := tx.CachedResponse(key)
		tr.same("answer to "+key, want, answer)
		return err
	})
}
