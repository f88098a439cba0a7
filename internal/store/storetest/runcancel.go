package storetest

import (
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runCancelPromises = []promise{
	{"what has not been delivered is cancelled with its run", func(tr *trial) {
		for _, inFlight := range []bool{false, true} {
			run, waits := tr.start()
			late := tr.step(run, delayed(never))
			retrying := tr.step(run)
			claims := tr.claimThese(waits, retrying)
			tr.release(claims[0])
			tr.settle(store.RetryAt(claims[1], tr.now.Add(time.Minute), unreachable))
			tr.cancelDeliveries(run, inFlight)
			tr.wantLog(waits, "CREATED ACTIVE CANCEL_REQUESTED CANCELLED")
			tr.wantLog(late, "CREATED CANCEL_REQUESTED CANCELLED")
			tr.wantLog(retrying, "CREATED ACTIVE ERROR RETRY CANCEL_REQUESTED CANCELLED")
			tr.wait(time.Hour)
			tr.wantNoClaims()
		}
	}},
	{"a first message that is not in the list is cancelled too", func(tr *trial) {
		run, listed := tr.start()
		again := tr.acceptOf(run, func(m *posthaste.Message) { m.Run.CallType, m.Body = posthaste.CallStep, listed.Body })
		run = tr.update(run, func(_ store.RunTx, run *posthaste.Run) error {
			run.FirstID = again.ID
			return nil
		})
		tr.cancelDeliveries(run, true)
		tr.wantLog(listed, "CREATED CANCEL_REQUESTED CANCELLED")
		tr.wantLog(again, "CREATED CANCEL_REQUESTED CANCELLED")
	}},
	{"what is in flight is left alone", func(tr *trial) {
		run, m := tr.start()
		claim := tr.claimOne(m)
		tr.cancelDeliveries(run, false)
		tr.settle(store.RetryAt(claim, tr.now, refused))
		tr.wantLog(m, "CREATED ACTIVE ERROR RETRY")
		tr.claimOne(m)
	}},
	{"what is in flight is asked to be cancelled", func(tr *trial) {
		run, m := tr.start()
		claim := tr.claimOne(m)
		tr.cancelDeliveries(run, true)
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED")
		tr.settle(store.RetryAt(claim, tr.now, refused))
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")
		tr.wantNoClaims()
	}},
	{"what has ended is passed over", func(tr *trial) {
		run, delivered := tr.start()
		failed, cancelled := tr.step(run), tr.step(run, delayed(never))
		claims := tr.claimThese(delivered, failed)
		tr.settle(store.Delivered(claims[0]))
		tr.settle(store.Failed(claims[1], refused))
		tr.cancelDeliveries(run, true)
		tr.cancelDeliveries(run, true)
		tr.wantLog(delivered, "CREATED ACTIVE DELIVERED")
		tr.wantLog(failed, "CREATED ACTIVE ERROR FAILED")
		tr.wantLog(cancelled, "CREATED CANCEL_REQUESTED CANCELLED")
	}},
	{"a message is cancelled once, however often it is asked for", func(tr *trial) {
		run, waits := tr.start()
		claimed := tr.step(run)
		tr.release(tr.claimThese(waits, claimed)[0])
		tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
			left, asked := tx.CancelDeliveries(run, false), tx.CancelDeliveries(run, true)
			_, again := tx.Cancel(waits.ID)
			return errors.Join(left, asked, again)
		})
		tr.wantLog(waits, "CREATED ACTIVE CANCEL_REQUESTED CANCELLED")
		tr.wantLog(claimed, "CREATED ACTIVE CANCEL_REQUESTED")
	}},
	{"other messages are not touched", func(tr *trial) {
		run, first := tr.start()
		tr.settle(store.Delivered(tr.claimOne(first)))
		_, ofOther := tr.start()
		plain, callback := tr.accept(), tr.acceptOf(run)
		tr.cancelDeliveries(run, true)
		tr.claimThese(ofOther, plain, callback)
	}},
	{"one message is cancelled", func(tr *trial) {
		run, first := tr.start()
		second, callback, plain := tr.step(run), tr.acceptOf(run), tr.accept(delayed(time.Hour))
		for _, m := range []*posthaste.Message{second, callback, plain} {
			tr.wantCancelsOfRun(m, true)
			tr.wantLog(m, "CREATED CANCEL_REQUESTED CANCELLED")
			tr.wantCancelsOfRun(m, false)
		}
		claim := tr.claimOne(first)
		tr.wantCancelsOfRun(first, true)
		tr.wantCancelsOfRun(first, false)
		tr.settle(store.Failed(claim, refused))
		tr.wantLog(first, "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")
		tr.wantCancelsOfRun(tr.neverAccepted(), false)
	}},
	{"only the run can cancel its messages", func(tr *trial) {
		run, first := tr.start()
		callback := tr.acceptOf(run)
		tr.wantCancels(0, first, callback)
		claim := tr.claimThese(first, callback)[0]
		tr.wantCancels(0, first)
		tr.settle(store.RetryAt(claim, tr.now, refused))
		tr.wantLog(first, "CREATED ACTIVE ERROR RETRY")
	}},
	{"messages of runs are not found among the live ones", func(tr *trial) {
		run, first := tr.start()
		tr.acceptOf(run)
		plain := tr.accept()
		tr.wantLive(store.LiveQuery{Limit: plenty}, plain)
		filter := posthaste.Filter{MessageIDs: []posthaste.MessageID{first.ID}}
		tr.wantLive(store.LiveQuery{Filter: filter, Limit: plenty})
	}},
}

func (tr *trial) cancelDeliveries(run *posthaste.Run, inFlight bool) {
	tr.Helper()
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error { return tx.CancelDeliveries(run, inFlight) })
}

// wantCancelsOfRun cancels a message in a transaction and requires it to say whether
// it could.
func (tr *trial) wantCancelsOfRun(m *posthaste.Message, want bool) {
	tr.Helper()
	tr.transact(func(tx store.RunTx) error {
		got, err := tx.Cancel(m.ID)
		if got != want {
			tr.Errorf("Cancel of %s = %t, want %t", m.ID, got, want)
		}
		return err
	})
}
