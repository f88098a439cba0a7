package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var healthPromises = []promise{
	{"a ping leaves nothing behind", func(tr *trial) {
		m := tr.accept()
		for range 3 {
			tr.ok(tr.store.Ping(tr.Context()))
		}
		tr.same("log", "CREATED", statesText(tr.wholeLog(m.User)))
	}},
	{"an empty store has nothing to count", func(tr *trial) {
		tr.wantStats(store.Stats{})
	}},
	{"stats count claims, lanes and what is late", func(tr *trial) {
		first := tr.accept(sentTo("http://a.example/"))
		tr.accept(sentTo("http://a.example/"), delayed(time.Minute))
		tr.accept(sentTo("http://b.example/"), delayed(time.Hour))
		tr.wait(time.Second)
		tr.wantStats(store.Stats{Lanes: 2, OldestDueAt: first.NotBefore})
		claim := tr.claimOne(first)
		tr.wantStats(store.Stats{Lanes: 2, InFlight: 1})
		tr.settle(store.Delivered(claim))
		tr.wantStats(store.Stats{Lanes: 2})
		tr.wait(2 * time.Minute)
		tr.wantStats(store.Stats{Lanes: 2, OldestDueAt: first.NotBefore.Add(time.Minute)})
	}},
	{"a lane whose messages have ended is not counted", func(tr *trial) {
		delivered, cancelled := tr.accept(), tr.accept(delayed(time.Hour))
		tr.settle(store.Delivered(tr.claimOne(delivered)))
		tr.wantCancels(1, cancelled)
		tr.wantStats(store.Stats{})
	}},
	{"a released claim is not in flight", func(tr *trial) {
		m := tr.accept()
		tr.release(tr.claimOne(m))
		tr.wait(time.Second)
		tr.wantStats(store.Stats{Lanes: 1, OldestDueAt: m.NotBefore})
	}},
	{"what a paused queue holds is late on purpose", func(tr *trial) {
		long := strings.Repeat("q", 250) // its lane may have another name
		first := tr.accept(through("q"))
		tr.wait(time.Second)
		tr.accept(through(long))
		for _, name := range []string{"q", long} {
			tr.updateQueue(name, func(q *posthaste.Queue) { q.Paused = true })
		}
		tr.wait(time.Second)
		tr.wantStats(store.Stats{Lanes: 2, OldestPausedDueAt: first.NotBefore})
		tr.wantNoClaims()
		tr.wantStats(store.Stats{Lanes: 2, OldestPausedDueAt: first.NotBefore})
		other := tr.accept()
		tr.wait(time.Second)
		tr.wantStats(store.Stats{Lanes: 3, OldestDueAt: other.NotBefore, OldestPausedDueAt: first.NotBefore})
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = false })
		tr.wantStats(store.Stats{Lanes: 3, OldestDueAt: first.NotBefore, OldestPausedDueAt: first.NotBefore.Add(time.Second)})
	}},
	{"what a paused flow-control key holds is late on purpose, in a queue too", func(tr *trial) {
		key := func(m *posthaste.Message) { m.FlowControl.Key = "k" }
		first := tr.accept(key)
		tr.wait(time.Second)
		tr.accept(key, through("q"))
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Paused = true })
		tr.wait(time.Second)
		tr.wantStats(store.Stats{Lanes: 2, OldestPausedDueAt: first.NotBefore})
		tr.wantNoClaims()
		tr.wantStats(store.Stats{Lanes: 2, OldestPausedDueAt: first.NotBefore})
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Paused = false })
		tr.wantStats(store.Stats{Lanes: 2, OldestDueAt: first.NotBefore})
	}},
	{"a message that has ended and whose callback waits is not late", func(tr *trial) {
		m := tr.accept(through("q"))
		callback := tr.message(delayed(time.Hour), func(c *posthaste.Message) { c.SourceID = m.ID })
		settlement := store.Delivered(tr.claimOne(m))
		settlement.Callbacks = callbacksOf(callback)
		tr.settle(settlement)
		tr.wait(time.Minute)
		if got, err := tr.store.Stats(tr.Context(), tr.now); err != nil || !got.OldestDueAt.IsZero() {
			tr.Errorf("Stats = %+v, %v, want nothing late", got, err)
		}
	}},
	{"messages that wait are counted by what holds the next one of their lane", func(tr *trial) {
		created, retry := posthaste.StateCreated, posthaste.StateRetry
		tr.wantHeld(map[store.Waiting]int{})
		claim := tr.claimOne(tr.accept(sentTo("http://a.example/")))
		tr.wantHeld(map[store.Waiting]int{})
		tr.settle(store.RetryAt(claim, tr.now.Add(time.Minute), refused))
		tr.accept(sentTo("http://a.example/"), delayed(time.Hour))
		tr.accept(sentTo("http://b.example/"))
		tr.wantHeld(map[store.Waiting]int{{State: retry, Hold: store.HoldBackoff}: 1, {State: created, Hold: store.HoldDelayed}: 1, {State: created, Hold: store.HoldTurn}: 1})
		tr.wantCancels(1, tr.accept(sentTo("http://b.example/")))
		tr.wait(2 * time.Minute)
		tr.wantHeld(map[store.Waiting]int{{State: retry, Hold: store.HoldTurn}: 1, {State: created, Hold: store.HoldTurn}: 2})
	}},
	{"messages in a queue wait for its pause, its slots or a retry", func(tr *trial) {
		created, retry := posthaste.StateCreated, posthaste.StateRetry
		first := tr.accept(through("q"))
		tr.accept(through("q"))
		tr.accept(through("q"))
		claim := tr.claimOne(first)
		tr.wantHeld(map[store.Waiting]int{{State: created, Hold: store.HoldQueueParallelism}: 2})
		tr.settle(store.RetryAt(claim, tr.now.Add(time.Minute), refused))
		tr.wantHeld(map[store.Waiting]int{{State: created, Hold: store.HoldQueueParallelism}: 2, {State: retry, Hold: store.HoldBackoff}: 1})
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = true })
		tr.wantHeld(map[store.Waiting]int{{State: created, Hold: store.HoldQueuePaused}: 2, {State: retry, Hold: store.HoldQueuePaused}: 1})
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused, q.Parallelism = false, 2 })
		tr.wantHeld(map[store.Waiting]int{{State: created, Hold: store.HoldTurn}: 2, {State: retry, Hold: store.HoldBackoff}: 1})
	}},
	{"messages under a flow-control key wait for its pause, its rate or its parallelism", func(tr *trial) {
		created := posthaste.StateCreated
		limited := func(key string, limit posthaste.FlowLimit) *posthaste.Message {
			return tr.accept(func(m *posthaste.Message) { m.FlowControl = posthaste.FlowControl{Key: key, FlowLimit: limit} })
		}
		for range 3 {
			limited("slow", posthaste.FlowLimit{Rate: 1, Period: time.Minute})
			limited("narrow", posthaste.FlowLimit{Parallelism: 2})
		}
		tr.claim(plenty)
		tr.wantHeld(map[store.Waiting]int{{State: created, Hold: store.HoldRate}: 2, {State: created, Hold: store.HoldKeyParallelism}: 1})
		tr.updateFlowKey("slow", func(k *posthaste.FlowKey) { k.Paused = true })
		tr.wantHeld(map[store.Waiting]int{{State: created, Hold: store.HoldKeyPaused}: 2, {State: created, Hold: store.HoldKeyParallelism}: 1})
	}},
	{"messages of queues wait for the pause of their flow-control key, wherever the key is", func(tr *trial) {
		const queues = 8
		for i := range queues {
			tr.accept(through(fmt.Sprint("queue-", i)), func(m *posthaste.Message) { m.FlowControl.Key = "key" })
		}
		tr.updateFlowKey("key", func(k *posthaste.FlowKey) { k.Paused = true })
		tr.wantHeld(map[store.Waiting]int{{State: posthaste.StateCreated, Hold: store.HoldKeyPaused}: queues})
	}},
	{"a queue lags from when its next message was due", func(tr *trial) {
		long := strings.Repeat("q", 250) // its lane may have another name
		tr.accept(through("q"), delayed(time.Second))
		tr.wait(time.Minute)
		tr.accept(through(long))
		tr.updateQueue(long, func(q *posthaste.Queue) { q.Paused = true })
		tr.accept(through("later"), delayed(time.Hour))
		tr.accept(ownedBy(anna), through("q"))
		tr.wait(time.Minute)
		got := must(tr.store.Stats(tr.Context(), tr.now))(tr).Queues
		slices.SortFunc(got, func(a, b store.QueueLag) int {
			return cmp.Or(strings.Compare(a.User, b.User), strings.Compare(a.Queue, b.Queue))
		})
		tr.same("queues", []store.QueueLag{
			{User: ann, Queue: "q", DueAt: start.Add(time.Second)},
			{User: ann, Queue: long, DueAt: start.Add(time.Minute)},
			{User: anna, Queue: "q", DueAt: start.Add(time.Minute)},
		}, got)
	}},
	{"claims in flight are counted for each user", func(tr *trial) {
		tr.accept()
		tr.accept()
		tr.accept(ownedBy(anna))
		tr.claim(plenty)
		for user, want := range map[string]int{ann: 2, anna: 1, "an": 0, "": 3} {
			if got := tr.usage(user).InFlight; got != want {
				tr.Errorf("in flight of %q: %d, want %d", user, got, want)
			}
		}
	}},
}

// wantStats compares all but the sizes and sums, of which that on disk only must not be
// negative.
func (tr *trial) wantStats(want store.Stats) {
	tr.Helper()
	got, err := tr.store.Stats(tr.Context(), tr.now)
	if err != nil || got.DiskBytes < 0 {
		tr.Fatalf("Stats = %+v, %v", got, err)
	}
	got.DiskBytes, got.WrittenBytes, got.LogReads = 0, 0, store.LogReads{}
	got.Waiting, got.Queues = nil, nil
	tr.same("stats", want, got)
}

func (tr *trial) wantHeld(want map[store.Waiting]int) {
	tr.Helper()
	got := must(tr.store.Stats(tr.Context(), tr.now))(tr).Waiting
	tr.same("waiting", want, got)
}
