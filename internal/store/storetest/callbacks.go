package storetest

import (
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
			settlement.Callbacks = callbacksOf(first, second)
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
		settlement.Callbacks = callbacksOf(callback)
		tr.settle(settlement)
		tr.same("log", "CREATED ACTIVE ERROR FAILED CREATED", statesText(tr.wholeLog(ann)))
	}},
	{"the callback of a failure is told the dead letter's id", func(tr *trial) {
		m := tr.accept()
		settlement := store.Failed(tr.claimOne(m), refused)
		callback := tr.message(func(m *posthaste.Message) { m.Body = []byte("id: <>") })
		settlement.Callbacks = []store.Callback{{Message: callback, DeadLetterAt: len("id: <")}}
		tr.settle(settlement)
		log := tr.logOf(m)
		id := posthaste.DeadLetterID(log[len(log)-1].Position)
		if d, err := tr.store.DeadLetter(tr.Context(), ann, id); err != nil || d.Message.ID != m.ID {
			tr.Errorf("DeadLetter %s = %v, %v, want that of %s", id, d, err, m.ID)
		}
		claims, _ := tr.claim(1)
		tr.same("body", "id: <"+id.String()+">", string(claims[0].Message.Body))
	}},
	{"a cancelled message calls nobody back", func(tr *trial) {
		m := tr.accept()
		settlement := store.RetryAt(tr.claimOne(m), tr.now, refused)
		settlement.Callbacks = callbacksOf(tr.neverAccepted())
		tr.wantCancels(1, m)
		tr.settle(settlement)
		tr.wantNoClaims()
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")
	}},
	{"a delivery that a cancellation could not stop calls back", func(tr *trial) {
		m, callback := tr.accept(), tr.message()
		settlement := store.Delivered(tr.claimOne(m))
		settlement.Callbacks = callbacksOf(callback)
		tr.wantCancels(1, m)
		tr.settle(settlement)
		tr.claimOne(callback)
	}},
}

// callbacksOf returns callbacks that name no dead letter.
func callbacksOf(messages ...*posthaste.Message) []store.Callback {
	callbacks := make([]store.Callback, len(messages))
	for i, m := range messages {
		callbacks[i].Message = m
	}
	return callbacks
}
