package storetest

import (
	"errors"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 2.10 and U-46.
var settlePromises = []promise{
	{"a delivery is logged as DELIVERED and ends the message", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.Delivered(tr.claimOne(m)))
		tr.wantLog(m, "CREATED ACTIVE DELIVERED")
		tr.wantEnd(m, posthaste.StateDelivered)
	}},
	{"a failure with a retry is logged as ERROR and RETRY", func(tr *trial) {
		m := tr.accept()
		next := tr.now.Add(time.Minute)
		tr.settle(store.RetryAt(tr.claimOne(m), next, refused))
		tr.wantLog(m, "CREATED ACTIVE ERROR RETRY")
		tr.wantEvents(m,
			posthaste.Event{State: posthaste.StateError, Error: refused.Error, Response: refused.Response, NextDeliveryAt: next},
			posthaste.Event{State: posthaste.StateRetry, NextDeliveryAt: next},
		)
	}},
	{"a retry is due at its time and counts the attempts", func(tr *trial) {
		m := tr.accept()
		for retried := range 3 {
			claim := tr.claimOne(m)
			if claim.Retried != retried {
				tr.Errorf("Retried = %d after %d failed attempts", claim.Retried, retried)
			}
			tr.settle(store.RetryAt(claim, tr.now.Add(time.Minute), unreachable))
			tr.wantNext(tr.now.Add(time.Minute))
			tr.wait(time.Minute - time.Millisecond)
			tr.wantNoClaims()
			tr.wait(time.Millisecond)
		}
	}},
	{"a retry in the past is due at once", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.RetryAt(tr.claimOne(m), tr.now.Add(-time.Hour), unreachable))
		tr.claimOne(m)
	}},
	{"the last failure is logged as ERROR and FAILED, both with the reason", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.Failed(tr.claimOne(m), refused))
		tr.wantLog(m, "CREATED ACTIVE ERROR FAILED")
		tr.wantEvents(m,
			posthaste.Event{State: posthaste.StateError, Error: refused.Error, Response: refused.Response},
			posthaste.Event{State: posthaste.StateFailed, Error: refused.Error},
		)
		tr.wantEnd(m, posthaste.StateFailed)
	}},
	{"a failure without an answer has no response", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.Failed(tr.claimOne(m), unreachable))
		tr.wantEvents(m,
			posthaste.Event{State: posthaste.StateError, Error: unreachable.Error},
			posthaste.Event{State: posthaste.StateFailed, Error: unreachable.Error},
		)
	}},
	{"a life with retries is logged whole", func(tr *trial) {
		m := tr.accept()
		for range 2 {
			tr.settle(store.RetryAt(tr.claimOne(m), tr.now.Add(time.Minute), refused))
			tr.wait(time.Minute)
		}
		tr.settle(store.Failed(tr.claimOne(m), refused))
		tr.wantLog(m, "CREATED ACTIVE ERROR RETRY ACTIVE ERROR RETRY ACTIVE ERROR FAILED")
	}},
	{"a delivery after a retry stands", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.RetryAt(tr.claimOne(m), tr.now, refused))
		tr.settle(store.Delivered(tr.claimOne(m)))
		tr.wantLog(m, "CREATED ACTIVE ERROR RETRY ACTIVE DELIVERED")
	}},
	{"each event has the response of its own attempt", func(tr *trial) {
		m := tr.accept()
		for status := 500; status < 503; status++ {
			outcome := posthaste.Outcome{Error: "no", Response: &posthaste.Response{Status: status}}
			tr.settle(store.RetryAt(tr.claimOne(m), tr.now, outcome))
		}
		want := 500
		for _, e := range tr.logOf(m) {
			if e.State != posthaste.StateError {
				continue
			}
			if e.Response == nil || e.Response.Status != want {
				tr.Errorf("response %v, want status %d", e.Response, want)
			}
			want++
		}
	}},
	{"what a settlement has become is told", func(tr *trial) {
		later := tr.now.Add(time.Hour)
		for _, test := range []struct {
			end       store.Settlement
			cancelled bool // while the claim is held
			state     posthaste.State
			next      time.Time
		}{
			{store.Delivered(store.Claim{}), false, posthaste.StateDelivered, time.Time{}},
			{store.RetryAt(store.Claim{}, later, refused), false, posthaste.StateRetry, later},
			{store.Failed(store.Claim{}, refused), false, posthaste.StateFailed, time.Time{}},
			{store.Delivered(store.Claim{}), true, posthaste.StateDelivered, time.Time{}},
			{store.RetryAt(store.Claim{}, later, refused), true, posthaste.StateCancelled, time.Time{}},
			{store.Failed(store.Claim{}, refused), true, posthaste.StateCancelled, time.Time{}},
		} {
			m := tr.accept()
			settlement := test.end
			settlement.Claim = tr.claimOne(m)
			if test.cancelled {
				tr.wantCancels(1, m)
			}
			tr.wantSettled(settlement, test.state, test.next)
		}
	}},
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

// wantSettled settles, and requires to be told where the message stands then.
func (tr *trial) wantSettled(settlement store.Settlement, state posthaste.State, next time.Time) {
	tr.Helper()
	var told store.Settlement
	settlement.Settled = func(s store.Settlement) { told = s }
	tr.settle(settlement)
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
	byID := map[posthaste.MessageID]store.Claim{}
	for _, c := range claims {
		byID[c.Message.ID] = c
	}
	ordered := make([]store.Claim, len(messages))
	for i, m := range messages {
		claim, ok := byID[m.ID]
		if !ok || len(claims) != len(messages) {
			tr.Fatalf("Claim returned %v, want %d messages, %s among them", idsOf(claims), len(messages), m.ID)
		}
		ordered[i] = claim
	}
	return ordered
}

// wantEnd requires that a message has ended for good.
func (tr *trial) wantEnd(m *posthaste.Message, state posthaste.State) {
	tr.Helper()
	if got := tr.status(m); got.State != state || !got.NextAttemptAt.IsZero() {
		tr.Errorf("message stands at %s, next %v, want %s and no next attempt", got.State, got.NextAttemptAt, state)
	}
	tr.wait(24 * time.Hour)
	tr.wantNoClaims()
	if n := tr.cancel(m); n != 0 {
		tr.Errorf("Cancel changed a message that is %s", state)
	}
}

// wantEvents requires a message's last events to be these, of the present time.
func (tr *trial) wantEvents(m *posthaste.Message, want ...posthaste.Event) {
	tr.Helper()
	entries := tr.logOf(m)
	if len(entries) < len(want) {
		tr.Fatalf("log of %s: %s, want %d events at least", m.ID, statesText(entries), len(want))
	}
	entries = entries[len(entries)-len(want):]
	for i, e := range entries {
		if !e.Position.Time().Equal(tr.now) {
			tr.Errorf("%s is logged at %v, want %v", e.State, e.Position.Time(), tr.now)
		}
		want[i].MessageID, want[i].Position = m.ID, e.Position
		tr.same("event", want[i], e.Event)
	}
}

var leaseLostPromises = []promise{
	{"a claim settles once", func(tr *trial) {
		claim := tr.claimOne(tr.accept())
		tr.settle(store.Delivered(claim))
		tr.wantLeaseLost(claim)
	}},
	{"a claim that was retried settles no more", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.settle(store.RetryAt(claim, tr.now, unreachable))
		tr.wantLeaseLost(claim)
		tr.claimOne(m)
		tr.wantLeaseLost(claim)
	}},
	{"a released claim settles no more", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.release(claim)
		tr.wantLeaseLost(claim)
		tr.claimOne(m)
		tr.wantLeaseLost(claim)
	}},
	{"a cancelled message's old claim settles no more", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.release(claim)
		tr.cancel(m)
		tr.wantLeaseLost(claim)
	}},
	{"a made-up lease settles nothing", func(tr *trial) {
		claim := tr.claimOne(tr.accept())
		claim.Lease++
		tr.wantLeaseLost(claim)
	}},
	{"a message that waits cannot be settled", func(tr *trial) {
		tr.wantLeaseLost(store.Claim{Message: tr.accept()})
	}},
	{"the lease of another message settles nothing", func(tr *trial) {
		mine, other := tr.accept(), tr.accept()
		claims := tr.claimThese(mine, other)
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
		s.Settled = func(store.Settlement) { tr.Errorf("a settlement as %s with a lost lease is told to stand", s.State) }
		if err := tr.store.Settle(tr.Context(), tr.now, s); !errors.Is(err, store.ErrLeaseLost) {
			tr.Errorf("Settle as %s = %v, want ErrLeaseLost", s.State, err)
		}
	}
	tr.settleDown(m.User)
	tr.same("status after lost leases", status, tr.status(m))
	tr.same("log after lost leases", log, tr.logOf(m))
}

var releasePromises = []promise{
	{"a released message is due at once, with the attempts it had", func(tr *trial) {
		m := tr.accept()
		tr.settle(store.RetryAt(tr.claimOne(m), tr.now, unreachable))
		tr.release(tr.claimOne(m))
		if got := tr.claimOne(m).Retried; got != 1 {
			tr.Errorf("Retried = %d after a release, want 1 as before", got)
		}
	}},
	{"a release leaves no trace in the log", func(tr *trial) {
		m := tr.accept()
		tr.release(tr.claimOne(m))
		tr.settle(store.Delivered(tr.claimOne(m)))
		tr.wantLog(m, "CREATED ACTIVE ACTIVE DELIVERED")
	}},
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
	{"a cancelled message is not due again when it is released", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.cancel(m)
		tr.release(claim)
		tr.wantNoClaims()
		tr.wantLog(m, "CREATED ACTIVE CANCEL_REQUESTED CANCELLED")
		tr.wantEnd(m, posthaste.StateCancelled)
	}},
}
