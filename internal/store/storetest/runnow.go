package storetest

import (
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, decision 36.
var runNowPromises = []promise{
	{"a delayed message is due at once", life("delayed now claim deliver wait", "CREATED ACTIVE DELIVERED")},
	{"a message that waits for a retry is due at once, with the attempts it had", life(
		"accepted claim retry now claim retry", "CREATED ACTIVE ERROR RETRY ACTIVE ERROR RETRY",
	)},
	{"a sleeping run goes on", func(tr *trial) {
		run, first := tr.start()
		tr.settle(store.Delivered(tr.claimOne(first)))
		sleeps := tr.step(run, delayed(time.Hour))
		tr.wantNoClaims()
		tr.runNow(sleeps)
		tr.settle(store.Delivered(tr.claimOne(sleeps)))
	}},
	{"it comes before what is due later in its lane, and after what was due", func(tr *trial) {
		lane := sentTo("http://a.example/")
		due, later, last := tr.accept(lane), tr.accept(lane, delayed(time.Minute)), tr.accept(lane, delayed(time.Hour))
		tr.wait(time.Second)
		tr.runNow(last)
		tr.wantOrder(due, last)
		tr.wantNext(later.NotBefore)
	}},
	{"what is due stays in its place", func(tr *trial) {
		lane := sentTo("http://a.example/")
		first, second := tr.accept(lane), tr.accept(lane, delayed(time.Millisecond))
		tr.wait(time.Second)
		tr.runNow(first)
		tr.wantOrder(first, second)
	}},
	{"the limits of its key still hold", func(tr *trial) {
		key := under("k", posthaste.FlowLimit{Parallelism: 1})
		running, waits := tr.accept(key), tr.accept(key, delayed(time.Hour))
		claim := tr.claimOne(running)
		tr.runNow(waits)
		tr.wantNoClaims()
		tr.settle(store.Delivered(claim))
		tr.claimOne(waits)
	}},
	{"it can still be cancelled", life("delayed now cancel", "CREATED CANCEL_REQUESTED CANCELLED")},
	{"a message in flight is refused, also when its cancellation was asked for", func(tr *trial) {
		m := tr.accept()
		claim := tr.claimOne(m)
		tr.wantRunNowRefused(m, "in flight")
		tr.wantCancels(1, m)
		tr.wantRunNowRefused(m, "cancellation")
		tr.settle(store.RetryAt(claim, tr.now.Add(time.Hour), refused))
		tr.wantEnd(m, posthaste.StateCancelled)
	}},
	{"a message in a queue is refused, delayed or retrying", func(tr *trial) {
		delayed, retrying := tr.accept(through("q"), delayed(time.Hour)), tr.accept(through("q"))
		tr.settle(store.RetryAt(tr.claimOne(retrying), tr.now.Add(time.Hour), refused))
		tr.wantRunNowRefused(delayed, "queue")
		tr.wantRunNowRefused(retrying, "queue")
		tr.wantNoClaims()
	}},
	{"what is unknown, has ended or is another user's is not found", func(tr *trial) {
		delivered, failed, cancelled := tr.accept(), tr.accept(), tr.accept(delayed(time.Hour))
		theirs := tr.accept(delayed(time.Hour), ownedBy(anna))
		claims := tr.claimThese(delivered, failed)
		tr.settle(store.Delivered(claims[0]))
		tr.settle(store.Failed(claims[1], refused))
		tr.wantCancels(1, cancelled)
		for _, m := range []*posthaste.Message{delivered, failed, cancelled, theirs, tr.neverAccepted()} {
			tr.wantErr(store.ErrNotFound, tr.store.RunNow(tr.Context(), tr.now, ann, m.ID))
		}
		tr.wantNoClaims()
	}},
}

func (tr *trial) runNow(m *posthaste.Message) {
	tr.Helper()
	tr.ok(tr.store.RunNow(tr.Context(), tr.now, m.User, m.ID))
}

// wantRunNowRefused requires an error that tells why.
func (tr *trial) wantRunNowRefused(m *posthaste.Message, why string) {
	tr.Helper()
	err := tr.store.RunNow(tr.Context(), tr.now, ann, m.ID)
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid || !strings.Contains(err.Error(), why) {
		tr.Errorf("RunNow = %v, want a refusal that says %q", err, why)
	}
}
