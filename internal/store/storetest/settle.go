package storetest

import (
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 2.10 and U-46.
var settlePromises = []promise{
	{"a delivery is logged as DELIVERED and ends the message", life("accepted claim deliver", "CREATED ACTIVE DELIVERED")},
	{"a failure with a retry is logged as ERROR and RETRY", attempt(
		store.RetryAt(store.Claim{}, soon, refused),
		posthaste.Event{State: posthaste.StateError, Error: refused.Error, Response: refused.Response, NextDeliveryAt: soon},
		posthaste.Event{State: posthaste.StateRetry, NextDeliveryAt: soon},
	)},
	{"a retry is due at its time and counts the attempts", life(
		"accepted claim retry almost rest claim retry almost rest claim", "CREATED ACTIVE ERROR RETRY ACTIVE ERROR RETRY ACTIVE",
	)},
	{"a retry in the past is due at once", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.RetryAt(tr.claimOne(m), tr.now.Add(-time.Hour), unreachable))
		tr.claimOne(m)
	}},
	{"the last failure is logged as ERROR and FAILED, both with the reason", attempt(
		store.Failed(store.Claim{}, refused),
		posthaste.Event{State: posthaste.StateError, Error: refused.Error, Response: refused.Response},
		posthaste.Event{State: posthaste.StateFailed, Error: refused.Error},
	)},
	{"a failure without an answer has no response", attempt(
		store.Failed(store.Claim{}, unreachable),
		posthaste.Event{State: posthaste.StateError, Error: unreachable.Error},
		posthaste.Event{State: posthaste.StateFailed, Error: unreachable.Error},
	)},
	{"a life with retries is logged whole", life(
		"accepted claim retry wait claim retry wait claim fail", "CREATED ACTIVE ERROR RETRY ACTIVE ERROR RETRY ACTIVE ERROR FAILED",
	)},
	{"a delivery after a retry stands", life("accepted claim retry wait claim deliver", "CREATED ACTIVE ERROR RETRY ACTIVE DELIVERED")},
	{"each event has the response of its own attempt", func(tr *trial) {
		m := tr.accept()
		for status := 500; status < 503; status++ {
			outcome := posthaste.Outcome{Error: "no", Response: &posthaste.Response{Status: status}}
			tr.settle(store.RetryAt(tr.claimOne(m), tr.now, outcome))
		}
		var statuses []int
		for _, e := range tr.logOf(m) {
			if e.State == posthaste.StateError {
				statuses = append(statuses, e.Response.Status)
			}
		}
		tr.same("responses", []int{500, 501, 502}, statuses)
	}},
	{"what a settlement has become is told", life("accepted claim cancel retry", "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")},
	{"settlements of different messages do not disturb each other", func(tr *trial) {
		delivered, retried, failed := tr.accept(), tr.accept(), tr.accept()
		claims := tr.claimThese(delivered, retried, failed)
		tr.settle(store.Failed(claims[2], unreachable))
		tr.settle(store.RetryAt(claims[1], tr.now.Add(time.Minute), unreachable))
		tr.settle(store.Delivered(claims[0]))
		tr.wantLog(delivered, "CREATED ACTIVE DELIVERED")
		tr.wantLog(retried, "CREATED ACTIVE ERROR RETRY")
		tr.wantLog(failed, "CREATED ACTIVE ERROR FAILED")
	}},
}

// soon is when the retry of an attempt is.
var soon = start.Add(time.Minute)

// attempt settles the first attempt of a message, which must add these events to its log.
func attempt(end store.Settlement, want ...posthaste.Event) func(*trial) {
	return func(tr *trial) {
		m := tr.accept()
		end := end
		end.Claim = tr.claimOne(m)
		tr.settle(end)
		tr.settleDown(m.User)
		log := tr.logOf(m)
		if len(log) != 2+len(want) {
			tr.Fatalf("log: %s, want %d events after the claim", statesText(log), len(want))
		}
		for i, e := range log[2:] {
			tr.same("time", tr.now, e.Position.Time())
			want := want[i]
			want.MessageID, want.Position = m.ID, e.Position
			tr.same("event", want, e.Event)
		}
	}
}

// wantSettled settles, and requires to be told where the message stands then.
func (tr *trial) wantSettled(settlement store.Settlement, state posthaste.State, next time.Time) {
	tr.Helper()
	told := tr.settle(settlement)
	if told.State != state || !told.NextAt.Equal(next) {
		tr.Errorf("settled as %s it is told to be %q, next %v, want %s, next %v", settlement.State, told.State, told.NextAt, state, next)
	}
	tr.same("state", state, tr.status(settlement.Claim.Message).State)
}

// claimThese claims all there is, which must be the given messages, and returns
// the claims in their order.
func (tr *trial) claimThese(messages ...*posthaste.Message) []store.Claim {
	tr.Helper()
	claims, _ := tr.claim(plenty)
	return inOrder(tr, claims, messages)
}

// inOrder returns claims in the order of their messages, which must be these.
func inOrder(t interface {
	Helper()
	Fatalf(string, ...any)
}, claims []store.Claim, messages []*posthaste.Message,
) []store.Claim {
	t.Helper()
	byID := map[posthaste.MessageID]store.Claim{}
	for _, c := range claims {
		byID[c.Message.ID] = c
	}
	ordered := make([]store.Claim, len(messages))
	for i, m := range messages {
		ordered[i] = byID[m.ID]
		if ordered[i].Message == nil {
			t.Fatalf("Claim returned %v, want %s among them", idsOf(claims), m.ID)
		}
	}
	if len(claims) != len(messages) {
		t.Fatalf("Claim returned %v, want %d messages", idsOf(claims), len(messages))
	}
	return ordered
}

// wantEnd requires that a message has ended for good.
func (tr *trial) wantEnd(m *posthaste.Message, state posthaste.State) {
	tr.Helper()
	tr.same("end", store.Status{Message: m, State: state, Retried: tr.status(m).Retried}, tr.status(m))
	tr.wait(24 * time.Hour)
	tr.wantNoClaims()
	tr.wantCancels(0, m)
}

var leaseLostPromises = []promise{
	{"a claim settles once", life("accepted claim deliver lost", "CREATED ACTIVE DELIVERED")},
	{"a claim that was retried settles no more", life("accepted claim retry wait lost claim lost", "CREATED ACTIVE ERROR RETRY ACTIVE")},
	{"a released claim settles no more", life("accepted claim release lost claim lost", "CREATED ACTIVE ACTIVE")},
	{"a cancelled message's old claim settles no more", life(
		"accepted claim release cancel lost", "CREATED ACTIVE CANCEL_REQUESTED CANCELLED",
	)},
	{"a made-up lease settles nothing", func(tr *trial) {
		claim := tr.claimOne(tr.accept())
		claim.Lease++
		tr.wantLeaseLost(claim)
	}},
	{"a message that waits cannot be settled", func(tr *trial) {
		tr.wantLeaseLost(store.Claim{Message: tr.accept()})
	}},
	{"the lease of another message settles nothing", func(tr *trial) {
		claims := tr.claimThese(tr.accept(), tr.accept())
		claims[0].Lease = claims[1].Lease
		tr.wantLeaseLost(claims[0])
	}},
}

// wantLeaseLost requires that no settlement of the claim is accepted and that
// none changes anything.
func (tr *trial) wantLeaseLost(claim store.Claim) {
	tr.Helper()
	m := claim.Message
	tr.settleDown(m.User)
	status, log := tr.status(m), tr.logOf(m)
	for _, s := range []store.Settlement{
		store.Delivered(claim),
		store.RetryAt(claim, tr.now, refused),
		store.Failed(claim, refused),
	} {
		tr.wantErr(store.ErrLeaseLost, errorOf(tr.store.Settle(tr.Context(), tr.now, s)))
	}
	tr.settleDown(m.User)
	tr.same("status after lost leases", status, tr.status(m))
	tr.same("log after lost leases", log, tr.logOf(m))
}

var releasePromises = []promise{
	{"a released message is due at once, with the attempts it had", life(
		"accepted claim retry wait claim release claim", "CREATED ACTIVE ERROR RETRY ACTIVE ACTIVE",
	)},
	{"a release leaves no trace in the log", life("accepted claim release claim deliver", "CREATED ACTIVE ACTIVE DELIVERED")},
	{"a released message keeps its place in its lane", func(tr *trial) {
		first := tr.accept(sentTo("http://a.example/"))
		tr.wait(time.Second)
		second := tr.accept(sentTo("http://a.example/"))
		claims, _ := tr.claim(1)
		tr.release(claims...)
		tr.wantOrder(first, second)
	}},
	{"claims that are not current are passed over", func(tr *trial) {
		delivered, current := tr.accept(), tr.accept()
		claims := tr.claimThese(delivered, current)
		tr.settle(store.Delivered(claims[0]))
		stale := claims[1]
		stale.Lease++
		tr.release(claims[0], stale)
		tr.wantNoClaims()
		tr.release(claims[0], claims[1])
		tr.claimOne(current)
	}},
	{"a cancelled message is not due again when it is released", life(
		"accepted claim cancel release", "CREATED ACTIVE CANCEL_REQUESTED CANCELLED",
	)},
}

// Contract, messages 2.5, U-78 and decision 20.
var cancelPromises = []promise{
	{"a waiting message is cancelled at once", life("accepted cancel", "CREATED CANCEL_REQUESTED CANCELLED")},
	{"a delayed message is cancelled at once", life("delayed cancel", "CREATED CANCEL_REQUESTED CANCELLED")},
	{"a message that waits for a retry is cancelled at once", life(
		"accepted claim retry cancel", "CREATED ACTIVE ERROR RETRY CANCEL_REQUESTED CANCELLED",
	)},
	{"a released message is cancelled at once", life("accepted claim release cancel", "CREATED ACTIVE CANCEL_REQUESTED CANCELLED")},
	{"a claimed message is decided when it is settled", life("accepted claim cancel", "CREATED ACTIVE CANCEL_REQUESTED")},
	{"a delivery that was on its way stands", life("accepted claim cancel deliver", "CREATED ACTIVE CANCEL_REQUESTED DELIVERED")},
	{"a claimed message that fails is cancelled, not retried", life(
		"accepted claim cancel retry", "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED",
	)},
	{"a claimed message that fails for good is cancelled, not failed", life(
		"accepted claim cancel fail", "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED",
	)},
	{"asking again changes nothing", life("delayed cancel cancel-again", "CREATED CANCEL_REQUESTED CANCELLED")},
	{"asking again changes nothing of a claimed message", life("accepted claim cancel cancel-again", "CREATED ACTIVE CANCEL_REQUESTED")},
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
	{"no messages, no change", func(tr *trial) { tr.wantCancels(0) }},
}

// wantCancels cancels messages and requires that so many were changed.
func (tr *trial) wantCancels(want int, messages ...*posthaste.Message) {
	tr.Helper()
	if got := tr.cancel(messages...); got != want {
		tr.Errorf("Cancel changed %d of %d messages, want %d", got, len(messages), want)
	}
}
