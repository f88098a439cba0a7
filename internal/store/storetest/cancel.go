package storetest

import (
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 2.5, U-78 and decision 20.
var cancelPromises = []promise{
	{"a waiting message is cancelled at once", func(tr *trial) {
		tr.checkCancelled(tr.accept(), "CREATED CANCEL_REQUESTED CANCELLED")
	}},
	{"a delayed message is cancelled at once", func(tr *trial) {
		tr.checkCancelled(tr.accept(delayed(time.Hour)), "CREATED CANCEL_REQUESTED CANCELLED")
	}},
	{"a message that waits for a retry is cancelled at once", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.RetryAt(tr.claimOne(m), tr.now.Add(time.Minute), unreachable))
		tr.checkCancelled(m, "CREATED ACTIVE ERROR RETRY CANCEL_REQUESTED CANCELLED")
	}},
	{"a released message is cancelled at once", func(tr *trial) {
		m := tr.accept()
		tr.release(tr.claimOne(m))
		tr.settleDown(ann)
		tr.checkCancelled(m, "CREATED ACTIVE CANCEL_REQUESTED CANCELLED")
	}},
	{"a claimed message is decided when it is settled", func(tr *trial) {
		m := tr.accept()
		tr.claimOne(m)
		tr.wantCancels(1, m)
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED")
		if got := tr.status(m).State; got != posthaste.StateActive {
			tr.Errorf("message stands at %s, want ACTIVE", got)
		}
	}},
	{"a delivery that was on its way stands", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.wantCancels(1, m)
		tr.settle(store.Delivered(claim))
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED DELIVERED")
		tr.wantEnd(m, posthaste.StateDelivered)
	}},
	{"a claimed message that fails is cancelled, not retried", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.wantCancels(1, m)
		tr.settle(store.RetryAt(claim, tr.now.Add(time.Minute), refused))
		tr.wantEvents(m,
			posthaste.Event{State: posthaste.StateError, Error: refused.Error, Response: refused.Response},
			posthaste.Event{State: posthaste.StateCancelled},
		)
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")
		tr.wantEnd(m, posthaste.StateCancelled)
	}},
	{"a claimed message that fails for good is cancelled, not failed", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.wantCancels(1, m)
		tr.settle(store.Failed(claim, refused))
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")
		tr.wantEnd(m, posthaste.StateCancelled)
	}},
	{"asking again changes nothing", func(tr *trial) {
		waits, claimed := tr.accept(delayed(time.Hour)), tr.accept()
		tr.claimOne(claimed)
		tr.wantCancels(2, waits, claimed)
		tr.wantCancels(0, waits, claimed)
		tr.wantLog(waits, "CREATED CANCEL_REQUESTED CANCELLED")
		tr.wantLog(claimed, "CREATED ACTIVE CANCEL_REQUESTED")
	}},
	{"an id given twice counts once", func(tr *trial) {
		m := tr.accept()
		tr.wantCancels(1, m, m)
		tr.wantLog(m, "CREATED CANCEL_REQUESTED CANCELLED")
	}},
	{"messages that ended or never were are passed over", func(tr *trial) {
		delivered, failed := tr.accept(), tr.accept()
		claims := tr.claimThese(delivered, failed)
		tr.settle(store.Delivered(claims[0]))
		tr.settle(store.Failed(claims[1], unreachable))
		waits := tr.accept()
		tr.wantCancels(1, delivered, tr.neverAccepted(), waits, failed)
		tr.wantLog(delivered, "CREATED ACTIVE DELIVERED")
		tr.wantLog(failed, "CREATED ACTIVE ERROR FAILED")
		tr.wantLog(waits, "CREATED CANCEL_REQUESTED CANCELLED")
	}},
	{"messages of another user are passed over", func(tr *trial) {
		theirs := tr.accept(ownedBy(anna))
		tr.wantCancels(0, theirs)
		tr.claimOne(theirs)
		tr.wantLog(theirs, "CREATED ACTIVE")
	}},
	{"the others of a lane are not disturbed", func(tr *trial) {
		lane := sentTo("http://a.example/")
		first, second, third := tr.accept(lane), tr.accept(lane, delayed(time.Millisecond)), tr.accept(lane, delayed(2*time.Millisecond))
		tr.wait(time.Second)
		tr.wantCancels(1, second)
		tr.wantOrder(first, third)
	}},
	{"no messages, no change", func(tr *trial) {
		tr.wantCancels(0)
	}},
}

// wantCancels cancels messages and requires that so many were changed.
func (tr *trial) wantCancels(want int, messages ...*posthaste.Message) {
	tr.Helper()
	if got := tr.cancel(messages...); got != want {
		tr.Errorf("Cancel changed %d of %d messages, want %d", got, len(messages), want)
	}
}

// checkCancelled cancels a message that is not claimed.
func (tr *trial) checkCancelled(m *posthaste.Message, log string) {
	tr.Helper()
	tr.wantCancels(1, m)
	tr.wantLog(m, log)
	tr.wantEnd(m, posthaste.StateCancelled)
}
