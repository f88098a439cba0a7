package storetest

import (
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 5.
var callbackPromises = []promise{
	{"callbacks of every settlement are accepted with it", func(tr *trial) {
		for _, settlement := range []store.Settlement{
			store.Delivered(tr.claimOne(tr.accept())),
			store.RetryAt(tr.claimOne(tr.accept()), tr.now.Add(time.Hour), refused),
			store.Failed(tr.claimOne(tr.accept()), refused),
		} {
			first, second := tr.message(delayed(time.Minute)), tr.message()
			settlement.Callbacks = makes(first, second)
			tr.settle(settlement)
			tr.same("log of a callback", "CREATED", statesText(tr.logOf(first)))
			tr.settle(store.Delivered(tr.claimOne(second)))
			tr.wait(time.Minute)
			tr.settle(store.Delivered(tr.claimOne(first)))
		}
	}},
	{"callbacks are logged after what they tell of", func(tr *trial) {
		m := tr.accept()
		callback := tr.message(delayed(never))
		settlement := store.Failed(tr.claimOne(m), refused)
		settlement.Callbacks = makes(callback)
		tr.settle(settlement)
		tr.same("log", "CREATED ACTIVE ERROR FAILED CREATED", statesText(tr.wholeLog(ann)))
	}},
	{"the callback of a failure is told the dead letter's id", func(tr *trial) {
		m := tr.accept()
		settlement := store.Failed(tr.claimOne(m), refused)
		var told posthaste.DeadLetterID
		settlement.Callbacks = func(id posthaste.DeadLetterID) ([]*posthaste.Message, error) {
			told = id
			return nil, nil
		}
		tr.settle(settlement)
		log := tr.logOf(m)
		if failed := log[len(log)-1]; told != posthaste.DeadLetterID(failed.Position) {
			tr.Errorf("callbacks were told %s, the failure is logged at %s", told, posthaste.DeadLetterID(failed.Position))
		}
		if d, err := tr.store.DeadLetter(tr.Context(), ann, told); err != nil || d.Message.ID != m.ID {
			tr.Errorf("DeadLetter %s = %v, %v, want that of %s", told, d, err, m.ID)
		}
	}},
	{"a settlement whose callbacks cannot be made does not take place", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		broken := errors.New("no callback")
		settlement := store.Failed(claim, refused)
		settlement.Callbacks = func(posthaste.DeadLetterID) ([]*posthaste.Message, error) { return nil, broken }
		tr.wantErr(broken, tr.store.Settle(tr.Context(), tr.now, settlement))
		tr.wantLog(m, "CREATED ACTIVE")
		tr.settle(store.Delivered(claim))
		tr.wantLog(m, "CREATED ACTIVE DELIVERED")
	}},
	{"a cancelled message calls nobody back", func(tr *trial) {
		m := tr.accept()
		settlement := store.RetryAt(tr.claimOne(m), tr.now, refused)
		settlement.Callbacks = makes(tr.neverAccepted())
		tr.wantCancels(1, m)
		tr.settle(settlement)
		tr.wantNoClaims()
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")
	}},
	{"a delivery that a cancellation could not stop calls back", func(tr *trial) {
		m, callback := tr.accept(), tr.message()
		settlement := store.Delivered(tr.claimOne(m))
		settlement.Callbacks = makes(callback)
		tr.wantCancels(1, m)
		tr.settle(settlement)
		tr.claimOne(callback)
	}},
}

// makes returns a function that makes these callbacks.
func makes(callbacks ...*posthaste.Message) func(posthaste.DeadLetterID) ([]*posthaste.Message, error) {
	return func(posthaste.DeadLetterID) ([]*posthaste.Message, error) { return callbacks, nil }
}
