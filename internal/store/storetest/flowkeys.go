package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 2.11, 6.5 and U-63.
var flowKeyPromises = []promise{
	{"a key that was never used is not found", func(tr *trial) {
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.FlowKey(tr.Context(), tr.now, ann, "k")))
		tr.wantFlowKeys("")
	}},
	{"a key follows the limits of the latest message", func(tr *trial) {
		for _, limit := range []posthaste.FlowLimit{
			{Parallelism: 1, Rate: 2, Period: time.Minute},
			{Parallelism: 3},
			{Rate: 4, Period: time.Hour},
		} {
			tr.accept(under("k", limit))
			tr.same("limits in force", limit, tr.flowKey("k").FlowLimit)
		}
	}},
	{"a pinned limit stays", func(tr *trial) {
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Parallelism, k.PinnedParallelism = 9, true })
		tr.accept(under("k", posthaste.FlowLimit{Parallelism: 1, Rate: 2, Period: time.Minute}))
		tr.same("limits in force", posthaste.FlowLimit{Parallelism: 9, Rate: 2, Period: time.Minute}, tr.flowKey("k").FlowLimit)
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.PinnedParallelism = false })
		tr.accept(under("k", posthaste.FlowLimit{Parallelism: 1}))
		tr.same("limits in force", posthaste.FlowLimit{Parallelism: 1}, tr.flowKey("k").FlowLimit)
	}},
	{"a change that fails changes nothing", func(tr *trial) {
		broken := errors.New("no change")
		err := tr.store.UpdateFlowKey(tr.Context(), tr.now, ann, "k", func(k *posthaste.FlowKey) error {
			k.Paused = true
			return broken
		})
		tr.wantErr(broken, err)
		tr.wantFlowKeys("")
	}},
	{"keys are found by a part of them, in order", func(tr *trial) {
		for _, key := range []string{"b/2", "a/1", "a/2", "c"} {
			tr.accept(under(key, posthaste.FlowLimit{}))
		}
		tr.accept(under("theirs/2", posthaste.FlowLimit{}), ownedBy(anna))
		tr.wantFlowKeys("", "a/1", "a/2", "b/2", "c")
		tr.wantFlowKeys("/2", "a/2", "b/2")
		tr.wantFlowKeys("/3")
	}},
	{"attempts in flight stay within the parallelism", func(tr *trial) {
		messages := tr.acceptMany(4, under("k", posthaste.FlowLimit{Parallelism: 2}))
		sortByID(messages)
		claims := tr.claimThese(messages[:2]...)
		tr.wantNoClaims()
		tr.settle(store.RetryAt(claims[0], tr.now.Add(time.Hour), refused)) // waits without a slot
		third := tr.claimOne(messages[2])
		tr.release(third)
		tr.claimOne(messages[2])
		tr.settle(store.Delivered(claims[1]))
		tr.claimOne(messages[3])
	}},
	{"attempts begun stay within the rate", func(tr *trial) {
		messages := tr.acceptMany(5, under("k", posthaste.FlowLimit{Rate: 2, Period: time.Minute}))
		sortByID(messages)
		tr.settleAll(tr.claimThese(messages[:2]...))
		tr.wait(time.Minute - time.Millisecond)
		claims, next := tr.claim(plenty)
		if len(claims) > 0 || next.IsZero() || next.After(tr.now.Add(time.Millisecond)) {
			tr.Errorf("Claim = %v, next %v, want none before the window ends and to be asked again then", idsOf(claims), next)
		}
		tr.wait(time.Millisecond)
		tr.settleAll(tr.claimThese(messages[2:4]...))
		tr.wait(time.Hour)
		tr.claimOne(messages[4])
	}},
	{"retries count as attempts", func(tr *trial) {
		m := tr.accept(under("k", posthaste.FlowLimit{Rate: 1, Period: time.Minute}))
		tr.settle(store.RetryAt(tr.claimOne(m), tr.now, refused))
		tr.wantNoClaims()
		tr.wait(time.Minute)
		tr.claimOne(m)
	}},
	{"a key is shared by all destinations and queues", func(tr *trial) {
		key := under("k", posthaste.FlowLimit{Parallelism: 1})
		first := tr.accept(key, sentTo("http://a.example/"))
		second := tr.accept(key, through("q"))
		claims, _ := tr.claim(plenty)
		if len(claims) != 1 {
			tr.Fatalf("%d attempts in flight under a parallelism of 1", len(claims))
		}
		tr.settleAll(claims)
		if rest, _ := tr.claim(plenty); len(rest) != 1 || rest[0].Message.ID == claims[0].Message.ID {
			tr.Errorf("Claim = %v after %v, want the other of %s and %s", idsOf(rest), idsOf(claims), first.ID, second.ID)
		}
	}},
	{"a message in a queue keeps its turn while its key holds it up", func(tr *trial) {
		holder := tr.accept(under("k", posthaste.FlowLimit{Parallelism: 1}))
		claim := tr.claimOne(holder)
		first := tr.accept(under("k", posthaste.FlowLimit{Parallelism: 1}), through("q"))
		second := tr.accept(through("q"))
		tr.wantNoClaims()
		tr.settle(store.Delivered(claim))
		tr.wantOrder(first, second)
	}},
	{"a queue goes on when the message that its key holds up is cancelled", func(tr *trial) {
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Paused = true })
		held, free := tr.accept(through("q"), under("k", posthaste.FlowLimit{})), tr.accept(through("q"))
		tr.wantNoClaims()
		tr.wantCancels(1, held)
		tr.claimOne(free)
	}},
	{"a held-up key does not hold up others", func(tr *trial) {
		tr.acceptMany(3, under("k", posthaste.FlowLimit{Parallelism: 1}))
		tr.claim(plenty)
		other := tr.accept(under("other", posthaste.FlowLimit{Parallelism: 1}))
		theirs := tr.accept(under("k", posthaste.FlowLimit{Parallelism: 1}), ownedBy(anna))
		tr.claimThese(other, theirs)
	}},
	{"room under a key wakes", func(tr *trial) {
		tr.acceptMany(2, under("k", posthaste.FlowLimit{Parallelism: 1}))
		tr.wantWake()
		claims, _ := tr.claim(plenty)
		tr.settleAll(claims)
		tr.wantWake()
	}},
	{"a paused key hands out nothing", func(tr *trial) {
		m := tr.accept(under("k", posthaste.FlowLimit{}))
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Paused = true })
		tr.accept(under("k", posthaste.FlowLimit{}), through("q"))
		tr.wantWake()
		tr.wantNoClaims()
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Paused = false })
		tr.wantWake()
		if claims, _ := tr.claim(plenty); len(claims) != 2 {
			tr.Errorf("%v are handed out after the pause, want %s and the one of the queue", idsOf(claims), m.ID)
		}
	}},
	{"a higher limit takes effect at once", func(tr *trial) {
		messages := tr.acceptMany(3, under("k", posthaste.FlowLimit{Parallelism: 1}))
		sortByID(messages)
		tr.claimOne(messages[0])
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Parallelism = 3 })
		tr.claimThese(messages[1:]...)
	}},
	{"a new window takes effect at once", func(tr *trial) {
		messages := tr.acceptMany(2, under("k", posthaste.FlowLimit{Rate: 1, Period: time.Hour}))
		sortByID(messages)
		tr.claimOne(messages[0])
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.ResetRate(tr.now) })
		tr.claimOne(messages[1])
	}},
	{"a new window takes effect at once in queues, and beside what is in flight", func(tr *trial) {
		key := under("k", posthaste.FlowLimit{Rate: 1, Period: time.Hour})
		inFlight := tr.accept(key, through("q"))
		tr.claimOne(inFlight)
		waiting := tr.accept(key, through("other"))
		tr.accept(key)
		tr.wantNoClaims()
		for range 2 {
			tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.ResetRate(tr.now) })
			claims, _ := tr.claim(plenty)
			if len(claims) != 1 {
				tr.Fatalf("%v are handed out in a new window, want one", idsOf(claims))
			}
			tr.settleAll(claims)
		}
		if got := tr.queue("other").Lag; got != 0 {
			tr.Errorf("%s waits in its queue after two new windows", waiting.ID)
		}
	}},
	{"a new rate takes effect at once, also in queues", func(tr *trial) {
		hourly := under("k", posthaste.FlowLimit{Rate: 1, Period: time.Hour})
		for _, change := range []func(){
			func() { tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Rate, k.PinnedRate = 9, true }) },
			func() { tr.accept(under("k", posthaste.FlowLimit{Rate: 9, Period: time.Hour}), delayed(24*time.Hour)) },
		} {
			tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.PinnedRate = false })
			first := tr.accept(hourly)
			tr.settle(store.Delivered(tr.claimOne(first)))
			free, queued := tr.accept(hourly), tr.accept(hourly, through("q"))
			tr.wantNoClaims()
			change()
			tr.settleAll(tr.claimThese(free, queued))
			tr.wait(2 * time.Hour)
		}
	}},
	{"a key counts what waits under it, in queues too", func(tr *trial) {
		one := posthaste.FlowLimit{Parallelism: 1}
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 9 })
		first := tr.accept(through("q"), under("k", one))
		tr.acceptMany(2, through("q"), under("k", one))
		tr.accept(through("q"), under("k", one), delayed(time.Hour))
		tr.accept(through("q"), under("other", one), delayed(time.Minute))
		tr.accept(under("k", one), delayed(time.Minute))
		tr.claimOne(first)
		if got := tr.flowKey("k"); got.InFlight != 1 || got.Waiting != 2 {
			tr.Errorf("%d in flight, %d waiting, want 1 and 2", got.InFlight, got.Waiting)
		}
		tr.wait(time.Minute)
		keys, err := tr.allFlowKeys("")
		if err != nil || len(keys) != 2 || keys[0].Waiting != 3 || keys[1].Waiting != 1 {
			tr.Errorf("keys %+v, %v, want 3 and 1 waiting", keys, err)
		}
	}},
	{"a key tells of its use", func(tr *trial) {
		const wait = 10 * time.Second
		limit := posthaste.FlowLimit{Parallelism: 1, Rate: 5, Period: time.Minute}
		tr.acceptMany(3, under("k", limit))
		tr.accept(under("k", limit), delayed(time.Hour))
		began := tr.now // when the key came into being, too
		claims, _ := tr.claim(plenty)
		tr.wait(wait)
		tr.same("use", store.FlowStatus{
			FlowKey:  posthaste.FlowKey{Key: "k", FlowLimit: limit, CreatedAt: began, UsedAt: began, WindowStartedAt: began, WindowCount: 1},
			InFlight: 1,
			Waiting:  2,
		}, tr.flowKey("k"))
		tr.settleAll(claims)
		tr.wait(time.Minute)
		if got := tr.flowKey("k"); got.InFlight != 0 || got.WindowCount != 0 || got.Waiting != 2 {
			tr.Errorf("after the window: %+v, want nothing in flight or counted, 2 waiting", got)
		}
	}},
	{"a list tells the same of keys as a read of each", func(tr *trial) {
		limit := posthaste.FlowLimit{Parallelism: 1, Rate: 5, Period: time.Hour}
		for _, key := range []string{"a", "b"} {
			tr.acceptMany(2, under(key, limit))
		}
		tr.settleAll(first(tr.claim(plenty)))
		tr.claim(plenty)
		tr.wait(time.Minute)
		keys := must(tr.allFlowKeys(""))(tr)
		tr.same("keys", []store.FlowStatus{tr.flowKey("a"), tr.flowKey("b")}, keys)
		if k := tr.flowKey("a"); k.WindowCount != 2 || k.InFlight != 1 {
			tr.Errorf("key %+v, want one attempt in flight and two in the window", k)
		}
	}},
	{"a deleted key is gone with its settings, and the next message makes it again", func(tr *trial) {
		limit := posthaste.FlowLimit{Parallelism: 2, Rate: 1, Period: time.Hour}
		tr.settle(store.Delivered(tr.claimOne(tr.accept(under("k", limit)))))
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) {
			k.Parallelism, k.PinnedParallelism, k.PinnedRate, k.Paused = 7, true, true, true
		})
		tr.updateFlowKey("l", func(*posthaste.FlowKey) {})
		tr.accept(under("k", limit), ownedBy(anna))
		tr.deleteFlowKey("k")
		tr.wantFlowKeys("", "l")
		if _, err := tr.store.FlowKey(tr.Context(), tr.now, anna, "k"); err != nil {
			tr.Errorf("the key of another user: %v", err)
		}
		m := tr.accept(under("k", limit))
		tr.same("the key that was made again", store.FlowStatus{
			FlowKey: posthaste.FlowKey{Key: "k", FlowLimit: limit, CreatedAt: tr.now, UsedAt: tr.now, WindowStartedAt: tr.now},
			Waiting: 1,
		}, tr.flowKey("k"))
		if claims, _ := tr.claim(plenty); len(claims) != 2 { // the other one is of anna
			tr.Errorf("%v are handed out in a window that counts nothing, want %s too", idsOf(claims), m.ID)
		}
	}},
	{"deleting a key that is not there is told", func(tr *trial) {
		tr.accept(under("k", posthaste.FlowLimit{Rate: 1}), ownedBy(anna))
		tr.wantErr(store.ErrNotFound, tr.store.DeleteFlowKey(tr.Context(), ann, "k"))
	}},
	{"a key under which messages have not ended is not deleted", func(tr *trial) {
		one := under("k", posthaste.FlowLimit{Parallelism: 1})
		inFlight := tr.claimOne(tr.accept(one))
		waiting := []*posthaste.Message{tr.accept(one), tr.accept(one, through("q")), tr.accept(one, delayed(time.Hour))}
		tr.wantKeyKept("k", 4)
		tr.wantCancels(3, waiting...)
		tr.wantKeyKept("k", 1)
		tr.settle(store.RetryAt(inFlight, tr.now.Add(time.Minute), refused))
		tr.wantKeyKept("k", 1)
		tr.wait(time.Minute)
		tr.settle(store.Delivered(tr.claimOne(inFlight.Message)))
		tr.deleteFlowKey("k")
		tr.wantFlowKeys("")
	}},
	{"a key whose deletion was refused, or that was needed, is idle from its last use on", func(tr *trial) {
		m := tr.accept(under("k", posthaste.FlowLimit{Parallelism: 1}), delayed(time.Hour))
		tr.wantKeyKept("k", 1)
		if trimmed, err := tr.trim(store.Horizon{FlowKeys: tr.now.Add(day)}); err != nil || trimmed.FlowKeys != 0 {
			tr.Errorf("Trim = %+v, %v, want the key of a message kept", trimmed, err)
		}
		tr.wantCancels(1, m)
		tr.same("time of its use", tr.now, tr.flowKey("k").UsedAt)
		if trimmed, err := tr.trim(store.Horizon{FlowKeys: tr.now.Add(-time.Hour)}); err != nil || trimmed.FlowKeys != 0 {
			tr.Errorf("Trim = %+v, %v, want a key kept that was used since", trimmed, err)
		}
	}},
}

func (tr *trial) deleteFlowKey(key string) {
	tr.Helper()
	tr.ok(tr.store.DeleteFlowKey(tr.Context(), ann, key))
}

// wantKeyKept tries to delete a key under which a number of messages have not ended.
func (tr *trial) wantKeyKept(key string, messages int) {
	tr.Helper()
	before := tr.flowKey(key).FlowLimit
	err := tr.store.DeleteFlowKey(tr.Context(), ann, key)
	if posthaste.ErrorCode(err) != posthaste.CodeConflict || !strings.Contains(err.Error(), fmt.Sprintf(": %d;", messages)) {
		tr.Errorf("DeleteFlowKey = %v, want a conflict that says %d", err, messages)
	}
	tr.same("limits in force", before, tr.flowKey(key).FlowLimit)
}

func under(key string, limit posthaste.FlowLimit) func(*posthaste.Message) {
	return func(m *posthaste.Message) {
		m.FlowControl = posthaste.FlowControl{Key: key, FlowLimit: limit}
	}
}

// sortByID puts messages that are due at the same time in the order of a lane.
func sortByID(messages []*posthaste.Message) {
	slices.SortFunc(messages, func(a, b *posthaste.Message) int {
		return slices.Compare(a.ID[:], b.ID[:])
	})
}

func (tr *trial) settleAll(claims []store.Claim) {
	tr.Helper()
	for _, claim := range claims {
		tr.settle(store.Delivered(claim))
	}
}

func (tr *trial) updateFlowKey(key string, change func(*posthaste.FlowKey)) {
	tr.Helper()
	err := tr.store.UpdateFlowKey(tr.Context(), tr.now, ann, key, func(k *posthaste.FlowKey) error {
		change(k)
		return nil
	})
	if err != nil {
		tr.Fatalf("UpdateFlowKey: %v", err)
	}
}

func (tr *trial) flowKey(key string) store.FlowStatus {
	tr.Helper()
	k := must(tr.store.FlowKey(tr.Context(), tr.now, ann, key))(tr)
	return k
}

func (tr *trial) wantFlowKeys(contains string, want ...string) {
	tr.Helper()
	all := must(tr.allFlowKeys(contains))(tr)
	var keys []string
	for _, k := range all {
		keys = append(keys, k.Key)
	}
	if !slices.Equal(keys, want) {
		tr.Errorf("keys that contain %q: %q, want %q", contains, keys, want)
	}
}
