package storetest

import (
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Retention is tried with days: what a backend may keep a day longer is tried a day
// later.
var retentionPromises = []promise{
	{"everything is kept without a horizon", func(tr *trial) {
		m := tr.end(tr.accept())
		tr.wait(400 * day)
		tr.wantTrimmed(store.Horizon{}, store.Trimmed{})
		tr.wantStored(m)
	}},
	{"what has ended goes with its day", func(tr *trial) {
		old := tr.end(tr.accept())
		tr.wait(3 * day)
		young := tr.end(tr.accept())
		tr.wantTrimmed(store.Horizon{Log: tr.now.Add(-day)}, store.Trimmed{Days: 1})
		tr.wantForgotten(old)
		tr.wantStored(young)
		tr.wantTrimmed(store.Horizon{Log: tr.now.Add(-day)}, store.Trimmed{})
	}},
	{"what is alive stays, whole", func(tr *trial) {
		delayed := tr.accept(delayed(30 * day))
		claimed := tr.claimThese(tr.accept())[0]
		ended := tr.end(tr.accept())
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now}, store.Trimmed{Days: 1})
		tr.wantForgotten(ended)
		for _, m := range []*posthaste.Message{delayed, claimed.Message} {
			status := must(tr.store.Message(tr.Context(), ann, m.ID))(tr)
			tr.same("message that is alive", m, status.Message)
		}
		tr.settle(store.Delivered(claimed))
		tr.wait(30 * day)
		if claims := tr.claimThese(delayed); len(claims) != 1 {
			tr.Errorf("the delayed message is claimed %d times", len(claims))
		}
	}},
	{"a message stays as long as any of its events", func(tr *trial) {
		m := tr.accept(delayed(3 * day))
		tr.wait(3 * day)
		tr.end(m)
		tr.wait(day)
		tr.wantTrimmed(store.Horizon{Log: tr.now.Add(-2 * day)}, store.Trimmed{Days: 1})
		if log := tr.logOf(m); len(log) != 2 || log[0].State != posthaste.StateActive || log[1].State != posthaste.StateDelivered {
			tr.Errorf("of its log there is %v", log)
		}
		tr.same("message", m, tr.status(m).Message)
		tr.wait(2 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now.Add(-day)}, store.Trimmed{Days: 1})
		tr.wantForgotten(m)
	}},
	{"dead letters go by their failure, and outlive their message", func(tr *trial) {
		old := tr.fail(tr.accept(), refused)
		tr.wait(3 * day)
		young := tr.fail(tr.accept(), refused)
		tr.wantTrimmed(store.Horizon{Log: tr.now.Add(-day)}, store.Trimmed{Days: 1})
		tr.wantForgotten(old.Message)
		tr.wantDeadLetters(old, young)
		tr.wantTrimmed(store.Horizon{DeadLetters: tr.now.Add(-day)}, store.Trimmed{DeadLetters: 1})
		tr.wantDeadLetters(young)
	}},
	{"runs go when they have ended and are not in the DLQ", func(tr *trial) {
		going, _ := tr.start()
		ended, _ := tr.start()
		failed, _ := tr.start()
		tr.complete(ended, posthaste.RunSuccess)
		tr.complete(failed, posthaste.RunFailed)
		tr.addToDLQ(failed)
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Runs: tr.now.Add(-day)}, store.Trimmed{Runs: 1})
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.LatestRun(tr.Context(), ann, ended.ID)))
		for _, run := range []*posthaste.Run{going, failed} {
			if entries, err := tr.store.RunEntries(tr.Context(), ann, run.Position, 0, -1); err != nil || len(entries) != 1 {
				tr.Errorf("run %s has %d entries left, %v", run.ID, len(entries), err)
			}
		}
		tr.wantTrimmed(store.Horizon{DeadLetters: tr.now, Runs: tr.now}, store.Trimmed{DeadLetters: 1, Runs: 1})
	}},
	{"who has nothing but dead letters or runs is known", func(tr *trial) {
		tr.fail(tr.accept(), refused)
		run, _ := tr.start()
		tr.complete(run, posthaste.RunSuccess)
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now}, store.Trimmed{Days: 1})
		tr.wantUsers(ann)
		tr.wantTrimmed(store.Horizon{Runs: tr.now}, store.Trimmed{Runs: 1})
		tr.wantUsers(ann)
		tr.wantTrimmed(store.Horizon{DeadLetters: tr.now}, store.Trimmed{DeadLetters: 1})
		tr.wantUsers()
	}},
	{"flow-control keys go when nothing has used them for long", func(tr *trial) {
		limit := posthaste.FlowLimit{Parallelism: 1}
		trim := func(want int) {
			tr.Helper()
			tr.wantTrimmed(store.Horizon{FlowKeys: tr.now.Add(-day)}, store.Trimmed{FlowKeys: want})
		}
		tr.end(tr.accept(under("idle", limit)))
		tr.end(tr.accept(under("window", posthaste.FlowLimit{Rate: 1, Period: 7 * day})))
		tr.updateFlowKey("paused", func(k *posthaste.FlowKey) { k.Paused = true })
		tr.updateFlowKey("pinned", func(k *posthaste.FlowKey) { k.Rate, k.PinnedRate = 1, true })
		tr.updateFlowKey("pinned too", func(k *posthaste.FlowKey) { k.Parallelism, k.PinnedParallelism = 1, true })
		alone := tr.accept(under("delayed", limit), delayed(3*day))
		queued := tr.accept(under("queued", limit), through("q"), delayed(3*day))
		tr.end(tr.accept(under("again", limit)))
		trim(0)
		tr.wait(day)
		tr.end(tr.accept(under("again", limit)))
		trim(0)
		tr.wait(time.Hour)
		trim(1)
		trim(0)
		tr.wantFlowKeys("", "again", "delayed", "paused", "pinned", "pinned too", "queued", "window")
		tr.same("limits in force", limit, tr.flowKey("delayed").FlowLimit)
		tr.wait(2 * day)
		tr.claimThese(alone, queued)
		trim(1)
		tr.wantFlowKeys("", "delayed", "paused", "pinned", "pinned too", "queued", "window")
		tr.wait(7 * day)
		trim(1)
		tr.updateFlowKey("paused", func(k *posthaste.FlowKey) { k.Paused = false })
		tr.wait(2 * day)
		trim(1)
		tr.wantFlowKeys("", "delayed", "pinned", "pinned too", "queued")
	}},
	{"who has nothing but flow-control keys is known", func(tr *trial) {
		tr.updateFlowKey("k", func(*posthaste.FlowKey) {})
		tr.wait(2 * day)
		tr.wantUsers(ann)
		tr.wantTrimmed(store.Horizon{FlowKeys: tr.now}, store.Trimmed{FlowKeys: 1})
		tr.wantUsers()
	}},
	{"others lose nothing", func(tr *trial) {
		mine := tr.end(tr.accept())
		theirs := tr.accept(ownedBy(anna))
		tr.end(theirs)
		tr.wait(3 * day)
		tr.wantTrimmed(store.Horizon{Log: tr.now}, store.Trimmed{Days: 1})
		tr.wantForgotten(mine)
		if _, err := tr.store.Message(tr.Context(), anna, theirs.ID); err != nil {
			tr.Errorf("the message of another user: %v", err)
		}
		tr.wantUsers(anna)
	}},
}

func (tr *trial) wantUsers(want ...string) {
	tr.Helper()
	total, err := tr.store.Usage(tr.Context(), "")
	if err != nil || !slices.Equal(total.Users, want) {
		tr.Errorf("something is kept of %v, %v, want %v", total.Users, err, want)
	}
}

const day = 24 * time.Hour

// end delivers a message.
func (tr *trial) end(m *posthaste.Message) *posthaste.Message {
	tr.Helper()
	tr.settle(store.Delivered(tr.claimThese(m)[0]))
	return m
}

func (tr *trial) wantTrimmed(horizon store.Horizon, want store.Trimmed) {
	tr.Helper()
	got := must(tr.trim(horizon))(tr)
	tr.same("trimmed", want, got)
	if err := newRunAudit(tr.store, ann).checkRecords(tr.Context()); err != nil {
		tr.Errorf("runs after trimming: %v", err)
	}
	if err := auditUsage(tr.Context(), tr.store, ann); err != nil {
		tr.Errorf("usage after trimming: %v", err)
	}
}

func (tr *trial) trim(horizon store.Horizon) (store.Trimmed, error) {
	trimmed, err := tr.store.Trim(tr.Context(), ann, horizon)
	tr.trimmed = tr.trimmed || !trimmed.Empty()
	return trimmed, err
}

// wantStored wants a message with its log.
func (tr *trial) wantStored(m *posthaste.Message) {
	tr.Helper()
	if _, err := tr.store.Message(tr.Context(), ann, m.ID); err != nil {
		tr.Errorf("message %s: %v", m.ID, err)
	}
	if len(tr.logOf(m)) == 0 {
		tr.Errorf("message %s has no log", m.ID)
	}
}

// wantForgotten wants neither a message nor its log, whichever way it is asked for.
func (tr *trial) wantForgotten(m *posthaste.Message) {
	tr.Helper()
	tr.wantErr(store.ErrNotFound, errorOf(tr.store.Message(tr.Context(), ann, m.ID)))
	if log := tr.logOf(m); len(log) != 0 {
		tr.Errorf("message %s has %d events left", m.ID, len(log))
	}
}

// complete ends a run.
func (tr *trial) complete(run *posthaste.Run, state posthaste.RunState) {
	tr.Helper()
	tr.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		run.State, run.CompletedAt = state, tx.Now()
		tx.Save(run)
		return nil
	})
}
