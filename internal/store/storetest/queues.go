package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Contract, messages 6.1.
var queuePromises = []promise{
	{"a queue that was never used is not found", func(tr *trial) {
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.Queue(tr.Context(), ann, "q")))
		tr.wantQueues()
	}},
	{"a message makes its queue", func(tr *trial) {
		tr.accept(through("q"))
		if got := tr.queue("q"); got.Parallelism != posthaste.DefaultParallelism || got.Paused || got.Lag != 1 {
			tr.Errorf("queue %+v, want the default parallelism, not paused, one message", got)
		}
	}},
	{"a message leaves a queue as it is", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism, q.Paused = 3, true })
		tr.accept(through("q"))
		if got := tr.queue("q"); got.Parallelism != 3 || !got.Paused {
			tr.Errorf("queue %+v, want parallelism 3, paused", got)
		}
	}},
	{"a change starts from what is there", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) {
			if q.Name != "q" || q.Parallelism != 0 {
				tr.Errorf("a new queue is %+v, want nothing but its name", q)
			}
			q.Parallelism = 3
		})
		tr.updateQueue("q", func(q *posthaste.Queue) {
			if q.Parallelism != 3 {
				tr.Errorf("parallelism %d, want 3 as stored", q.Parallelism)
			}
			q.Paused = true
		})
		if got := tr.queue("q"); got.Name != "q" || got.Parallelism != 3 || !got.Paused {
			tr.Errorf("queue %+v, want both changes", got)
		}
	}},
	{"a change that fails changes nothing", func(tr *trial) {
		broken := errors.New("no change")
		err := tr.store.UpdateQueue(tr.Context(), tr.now, ann, "q", func(q *posthaste.Queue) error {
			q.Parallelism = 3
			return broken
		})
		tr.wantErr(broken, err)
		tr.wantQueues()
	}},
	{"queues are listed by name", func(tr *trial) {
		for _, name := range []string{"b", "a/1", "a"} {
			tr.updateQueue(name, func(q *posthaste.Queue) { q.Parallelism = 1 })
		}
		tr.accept(through("theirs"), ownedBy(anna))
		tr.wantQueues("a", "a/1", "b")
	}},
	{"lag counts what has not ended", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 5 })
		delivered, retrying, claimed := tr.accept(through("q")), tr.accept(through("q")), tr.accept(through("q"))
		claims := tr.claimThese(delivered, retrying, claimed)
		tr.settle(store.Delivered(claims[0]))
		tr.settle(store.RetryAt(claims[1], tr.now.Add(time.Hour), refused))
		tr.accept(through("q"), delayed(time.Hour))
		tr.accept(through("other"))
		if got := tr.queue("q").Lag; got != 3 {
			tr.Errorf("lag %d, want 3", got)
		}
	}},
	{"messages begin in the order of acceptance, one by one", func(tr *trial) {
		messages := tr.acceptMany(5, through("q"))
		messages = append(messages, tr.acceptMany(5, through("q"))...)
		for _, m := range messages {
			claim := tr.claimOne(m)
			tr.wantNoClaims()
			tr.settle(store.Delivered(claim))
		}
	}},
	{"messages keep their order while the clock steps back", func(tr *trial) {
		first := tr.accept(through("q"))
		tr.wait(-time.Minute)
		second := tr.accept(through("q"))
		tr.wait(time.Hour)
		tr.wantOrder(first, second)
	}},
	{"a delayed message lets others pass", func(tr *trial) {
		late := tr.accept(through("q"), delayed(time.Hour))
		prompt := tr.accept(through("q"))
		tr.settle(store.Delivered(tr.claimOne(prompt)))
		tr.wantNext(late.NotBefore)
		tr.wait(time.Hour)
		tr.claimOne(late)
	}},
	{"a message keeps its slot through its retries", func(tr *trial) {
		first, second := tr.accept(through("q")), tr.accept(through("q"))
		tr.settle(store.RetryAt(tr.claimOne(first), tr.now.Add(time.Hour), refused))
		tr.wantNext(tr.now.Add(time.Hour))
		tr.wait(time.Hour)
		tr.settle(store.Failed(tr.claimOne(first), refused))
		tr.claimOne(second)
	}},
	{"a message keeps its slot until its callbacks have ended", func(tr *trial) {
		first, second := tr.accept(through("q")), tr.accept(through("q"))
		callback := tr.message(func(m *posthaste.Message) { m.SourceID = first.ID })
		settlement := store.Delivered(tr.claimOne(first))
		settlement.Callbacks = callbacksOf(callback)
		tr.settle(settlement)
		claim := tr.claimOne(callback)
		tr.settle(store.RetryAt(claim, tr.now, refused))
		tr.settle(store.Failed(tr.claimOne(callback), refused))
		tr.claimOne(second)
	}},
	{"a cancelled message gives up its slot", func(tr *trial) {
		first, second := tr.accept(through("q")), tr.accept(through("q"))
		tr.settle(store.RetryAt(tr.claimOne(first), tr.now.Add(time.Hour), refused))
		tr.wantWake()
		tr.wantCancels(1, first)
		tr.wantWake()
		tr.claimOne(second)
	}},
	{"a cancelled callback gives up the slot of its message", func(tr *trial) {
		first, second := tr.accept(through("q")), tr.accept(through("q"))
		callback := tr.message(delayed(time.Hour), func(m *posthaste.Message) { m.SourceID = first.ID })
		settlement := store.Delivered(tr.claimOne(first))
		settlement.Callbacks = callbacksOf(callback)
		tr.settle(settlement)
		tr.wantNoClaims()
		tr.wantWake()
		tr.wantCancels(1, callback)
		tr.wantWake()
		tr.claimOne(second)
	}},
	{"a released message goes first again", func(tr *trial) {
		first, second := tr.accept(through("q")), tr.accept(through("q"))
		tr.release(tr.claimOne(first))
		tr.wantOrder(first, second)
	}},
	{"as many messages begin as the queue is wide", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 2 })
		messages := tr.acceptMany(3, through("q"))
		claims := tr.claimThese(messages[:2]...)
		tr.settle(store.RetryAt(claims[0], tr.now.Add(time.Hour), refused))
		tr.wantNext(tr.now.Add(time.Hour))
		tr.settle(store.Delivered(claims[1]))
		tr.claimOne(messages[2])
	}},
	{"a wider queue takes effect at once", func(tr *trial) {
		messages := tr.acceptMany(3, through("q"))
		tr.claimOne(messages[0])
		tr.wantWake()
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 3 })
		tr.wantWake()
		tr.claimThese(messages[1:]...)
	}},
	{"a narrower queue takes effect as messages end", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 3 })
		messages := tr.acceptMany(4, through("q"))
		claims := tr.claimThese(messages[:3]...)
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 1 })
		for _, claim := range claims {
			tr.wantNoClaims()
			tr.settle(store.Delivered(claim))
		}
		tr.claimOne(messages[3])
	}},
	{"in a narrower queue the earlier messages go first", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 3 })
		messages := tr.acceptMany(4, through("q"))
		for _, claim := range tr.claimThese(messages[:3]...) {
			tr.settle(store.RetryAt(claim, tr.now, refused))
		}
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 1 })
		for _, m := range messages {
			claim := tr.claimOne(m)
			tr.wantNoClaims()
			tr.settle(store.Delivered(claim))
		}
	}},
	{"in a narrower queue a message does not wait for callbacks of a later one", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 2 })
		messages := tr.acceptMany(3, through("q"))
		claims := tr.claimThese(messages[:2]...)
		callback := tr.message(delayed(time.Hour), func(m *posthaste.Message) { m.SourceID = messages[1].ID })
		settlement := store.Delivered(claims[1])
		settlement.Callbacks = callbacksOf(callback)
		tr.settle(settlement)
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 1 })
		tr.settle(store.RetryAt(claims[0], tr.now, refused))
		tr.settle(store.Delivered(tr.claimOne(messages[0])))
		tr.wantNext(tr.now.Add(time.Hour))
		tr.wait(time.Hour)
		tr.settle(store.Delivered(tr.claimOne(callback)))
		tr.claimOne(messages[2])
	}},
	{"a released message waits while a later one has the only slot", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 2 })
		first, second := tr.accept(through("q")), tr.accept(through("q"))
		claims := tr.claimThese(first, second)
		tr.settle(store.RetryAt(claims[1], tr.now.Add(time.Hour), refused))
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 1 })
		tr.release(claims[0])
		tr.wantNext(tr.now.Add(time.Hour))
		tr.wait(time.Hour)
		tr.settle(store.Delivered(tr.claimOne(second)))
		tr.claimOne(first)
	}},
	{"a message that has begun and that its key holds up does not hold up others", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 3 })
		held, again, third := tr.accept(through("q"), under("k", posthaste.FlowLimit{})), tr.accept(through("q")), tr.accept(through("q"))
		claims := tr.claimThese(held, again, third)
		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Paused = true })
		tr.settle(store.RetryAt(claims[0], tr.now, refused))
		tr.settle(store.RetryAt(claims[1], tr.now, refused))
		claims[1] = tr.claimOne(again)

		next := tr.accept(through("q"))
		tr.wantNoClaims()
		tr.wantWake()
		tr.settle(store.Delivered(claims[2])) // a slot is free
		tr.wantWake()
		tr.settle(store.Delivered(tr.claimOne(next)))

		tr.wantNoClaims()
		tr.wantWake()
		next = tr.accept(through("q"))
		tr.wantWake()
		claim := tr.claimOne(next)

		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 4 })
		next = tr.accept(through("q"))
		tr.claimOne(next)
		tr.settle(store.RetryAt(claim, tr.now.Add(time.Minute), refused))
		tr.wantNext(tr.now.Add(time.Minute))
		tr.wait(time.Minute)
		tr.claimOne(claim.Message)

		tr.updateFlowKey("k", func(k *posthaste.FlowKey) { k.Paused = false })
		tr.claimOne(held)
	}},
	{"messages of a queue wait for several keys at once", func(tr *trial) {
		const keys = 3
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = keys })
		var messages []*posthaste.Message
		for n := range keys {
			messages = append(messages, tr.accept(through("q"), under(fmt.Sprint(n), posthaste.FlowLimit{})))
		}
		claims := tr.claimThese(messages...)
		for n, claim := range claims {
			tr.updateFlowKey(fmt.Sprint(n), func(k *posthaste.FlowKey) { k.Paused = true })
			tr.settle(store.RetryAt(claim, tr.now, refused))
		}
		tr.wantNoClaims()
		tr.wantWake()
		for _, n := range []int{2, 0, 1} {
			tr.updateFlowKey(fmt.Sprint(n), func(k *posthaste.FlowKey) { k.Paused = false })
			tr.wantWake()
			tr.claimOne(messages[n])
			tr.wantNoClaims()
		}
	}},
	{"a paused queue hands out nothing", func(tr *trial) {
		m := tr.accept(through("q"))
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = true })
		tr.accept(through("q"))
		other := tr.accept(through("other"))
		tr.wantWake()
		tr.settle(store.Delivered(tr.claimOne(other)))
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = false })
		tr.wantWake()
		tr.claimOne(m)
	}},
	{"a claimed message of a paused queue can be settled", func(tr *trial) {
		m := tr.accept(through("q"))
		claim := tr.claimOne(m)
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = true })
		tr.settle(store.RetryAt(claim, tr.now, refused))
		tr.wantNoClaims()
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = false })
		tr.claimOne(m)
	}},
	{"queues of different users do not meet", func(tr *trial) {
		mine, theirs := tr.accept(through("q")), tr.accept(through("q"), ownedBy(anna))
		tr.claimThese(mine, theirs)
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 7 })
		if got, err := tr.store.Queue(tr.Context(), anna, "q"); err != nil || got.Parallelism != posthaste.DefaultParallelism {
			tr.Errorf("queue of another user %+v, %v, want the default parallelism", got, err)
		}
	}},
	{"deleting a queue cancels what waits in it", func(tr *trial) {
		claimed, waits, other := tr.accept(through("q")), tr.accept(through("q")), tr.accept(through("other"))
		claims := tr.claimThese(claimed, other)
		tr.deleteQueue("q")
		tr.wantQueues("other")
		tr.wantLog(waits, "CREATED CANCEL_REQUESTED CANCELLED")
		tr.settle(store.RetryAt(claims[0], tr.now, refused))
		tr.wantLog(claimed, "CREATED ACTIVE CANCEL_REQUESTED ERROR CANCELLED")
		tr.wantNoClaims()
		tr.wantLog(other, "CREATED ACTIVE")
	}},
	{"a long queue is deleted whole", func(tr *trial) {
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 2 })
		messages := tr.acceptMany(1201, through("q"))
		messages = append(messages, tr.accept(through("q"), delayed(time.Hour)))
		claims := tr.claimThese(messages[:2]...)
		tr.settle(store.RetryAt(claims[0], tr.now.Add(time.Hour), refused))
		tr.deleteQueue("q")
		tr.wantQueues()
		tr.settle(store.RetryAt(claims[1], tr.now, refused))
		cancelled := tr.events(ann, logQuery(posthaste.Filter{States: []posthaste.State{posthaste.StateCancelled}}))
		if len(cancelled) != len(messages) {
			tr.Errorf("%d of %d messages are cancelled", len(cancelled), len(messages))
		}
		tr.accept(through("q"))
		if got := tr.queue("q"); got.Lag != 1 || got.Parallelism != posthaste.DefaultParallelism {
			tr.Errorf("the queue made anew is %+v, want the default parallelism, one message", got)
		}
	}},
	{"deleting a queue leaves runs alone, which go on without it", func(tr *trial) {
		run, first := tr.start()
		tr.settle(store.Delivered(tr.claimOne(first)))
		begun := tr.acceptOf(run, through("q"))
		claim := tr.claimOne(begun)
		waits := tr.acceptOf(run, through("q"))
		other := tr.accept(through("q"))
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = true })
		tr.wantWake()
		tr.deleteQueue("q")
		tr.wantQueues()
		tr.wantEnd(other, posthaste.StateCancelled)
		tr.settle(store.RetryAt(claim, tr.now, refused))
		tr.settle(store.Delivered(tr.claimOne(begun)))
		tr.settle(store.Delivered(tr.claimOne(waits)))
		tr.wantLog(begun, "CREATED ACTIVE ERROR RETRY ACTIVE DELIVERED")
		tr.wantLog(waits, "CREATED ACTIVE DELIVERED")
	}},
	{"what waits in a paused queue goes on when that is deleted, if it is a run's", func(tr *trial) {
		run, first := tr.start()
		tr.settle(store.Delivered(tr.claimOne(first)))
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Paused = true })
		waits := tr.acceptOf(run, through("q"))
		tr.wantNoClaims()
		tr.wantWake()
		tr.deleteQueue("q")
		tr.wantWake()
		tr.claimOne(waits)
	}},
	{"a delivery stands after its queue was deleted", func(tr *trial) {
		m := tr.accept(through("q"))
		claim := tr.claimOne(m)
		tr.deleteQueue("q")
		tr.settle(store.Delivered(claim))
		tr.wantEnd(m, posthaste.StateDelivered)
	}},
	{"a queue can be deleted again and made anew", func(tr *trial) {
		tr.deleteQueue("q")
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = 3 })
		tr.deleteQueue("q")
		tr.deleteQueue("q")
		tr.wantQueues()
		m := tr.accept(through("q"))
		if got := tr.queue("q").Parallelism; got != posthaste.DefaultParallelism {
			tr.Errorf("parallelism %d of a new queue, want the default", got)
		}
		tr.claimOne(m)
	}},
}

func through(queue string) func(*posthaste.Message) {
	return func(m *posthaste.Message) { m.Queue = queue }
}

func (tr *trial) updateQueue(name string, change func(*posthaste.Queue)) {
	tr.Helper()
	err := tr.store.UpdateQueue(tr.Context(), tr.now, ann, name, func(q *posthaste.Queue) error {
		change(q)
		return nil
	})
	if err != nil {
		tr.Fatalf("UpdateQueue: %v", err)
	}
}

func (tr *trial) deleteQueue(name string) {
	tr.Helper()
	tr.ok(tr.store.DeleteQueue(tr.Context(), tr.now, ann, name))
}

func (tr *trial) queue(name string) store.QueueStatus {
	tr.Helper()
	q := must(tr.store.Queue(tr.Context(), ann, name))(tr)
	return q
}

// wantQueues requires ann to have the queues of these names, in this order.
func (tr *trial) wantQueues(want ...string) {
	tr.Helper()
	all := must(tr.allQueues(ann))(tr)
	var names []string
	for _, q := range all {
		names = append(names, q.Name)
	}
	alone := must(tr.store.QueueNames(tr.Context(), ann))(tr)
	if !slices.Equal(names, want) || !slices.Equal(alone, want) {
		tr.Errorf("queues %q, and by their names %q, want %q", names, alone, want)
	}
}
