package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var claimPromises = []promise{
	{"a message is due at its NotBefore", func(tr *trial) {
		m := tr.accept(delayed(time.Minute))
		tr.wait(time.Minute - time.Millisecond)
		tr.wantNoClaims()
		tr.wait(time.Millisecond)
		tr.claimOne(m)
	}},
	{"a claim tells of no earlier attempts", func(tr *trial) {
		m := tr.accept()
		if got := tr.claimOne(m).Retried; got != 0 {
			tr.Errorf("Retried = %d at the first attempt, want 0", got)
		}
	}},
	{"a claim is logged as ACTIVE", func(tr *trial) {
		m := tr.accept()
		tr.claimOne(m)
		tr.wantLog(m, "CREATED ACTIVE")
	}},
	{"a leased message is not given twice", func(tr *trial) {
		m := tr.accept()
		tr.claimOne(m)
		tr.wantNoClaims()
		tr.wait(24 * time.Hour)
		tr.wantNoClaims()
	}},
	{"leases differ", func(tr *trial) {
		tr.acceptMany(5)
		claims, _ := tr.claim(plenty)
		leases := map[uint64]bool{}
		for _, c := range claims {
			leases[c.Lease] = true
		}
		if len(leases) != 5 {
			tr.Errorf("%d different leases of %d claims, want 5", len(leases), len(claims))
		}
	}},
	{"a lane is served by due time, then by id", checkOrderInLane},
	{"a retry takes its place by due time", func(tr *trial) {
		first := tr.accept(sentTo("http://a.example/"))
		tr.settle(store.RetryAt(tr.claimOne(first), tr.now.Add(2*time.Minute), unreachable))
		later := tr.accept(sentTo("http://a.example/"), delayed(3*time.Minute))
		sooner := tr.accept(sentTo("http://a.example/"), delayed(time.Minute))
		tr.wait(time.Hour)
		tr.wantOrder(sooner, first, later)
	}},
	{"lanes are served in turn within a claim", func(tr *trial) {
		lanes := tr.acceptInLanes(3)
		claims, _ := tr.claim(2 * lanes) // so that one user has room in all of theirs
		if got := len(lanesOf(claims)); got != lanes {
			tr.Errorf("%d claims cover %d lanes, want %d", len(claims), got, lanes)
		}
	}},
	{"lanes are served in turn from claim to claim", func(tr *trial) {
		lanes := tr.acceptInLanes(3)
		var claims []store.Claim
		for range lanes {
			one, _ := tr.claim(1)
			tr.settleAll(one)
			claims = append(claims, one...)
		}
		if got := len(lanesOf(claims)); got != lanes {
			tr.Errorf("%d claims cover %d lanes, want %d", len(claims), got, lanes)
		}
	}},
	{"a backlog does not hold up another lane", func(tr *trial) {
		tr.acceptMany(200, sentTo("http://backlog.example/"))
		tr.wait(time.Second)
		m := tr.accept(sentTo("http://prompt.example/"))
		claims, _ := tr.claim(2)
		if !slices.Contains(idsOf(claims), m.ID) {
			tr.Error("the only message of its lane is not among the first two claims")
		}
	}},
	{"a user with more hosts than slots leaves room for others", leavesRoom(func(*posthaste.Message) {})},
	{"a user with more queues than slots leaves room for others", leavesRoom(func(m *posthaste.Message) {
		m.URL, m.Queue = "http://hangs.example/", m.ID.String()
	})},
	{"a user with more keys than slots leaves room for others", leavesRoom(func(m *posthaste.Message) {
		m.URL, m.FlowControl = "http://hangs.example/", posthaste.FlowControl{Key: m.ID.String(), FlowLimit: posthaste.FlowLimit{Parallelism: 1}}
	})},
	{"a wide queue leaves room for its user's other lanes", func(tr *trial) {
		const slots = 40
		tr.updateQueue("q", func(q *posthaste.Queue) { q.Parallelism = slots })
		tr.acceptMany(slots, through("q"))
		claims, _ := tr.claim(slots)
		m := tr.accept()
		if others, _ := tr.claim(slots - len(claims)); !slices.Contains(idsOf(others), m.ID) {
			tr.Errorf("%d messages of a queue leave no slot of %d", len(claims), slots)
		}
	}},
	{"a user with large messages leaves memory for others", func(tr *trial) {
		large := func(m *posthaste.Message) { m.Body = make([]byte, Memory/16) }
		tr.acceptMany(32, large, ownedBy("greedy"))
		tr.claim(plenty)
		for _, user := range []string{ann, anna} {
			m := tr.accept(large, ownedBy(user))
			if claims, _ := tr.claim(plenty); !slices.Contains(idsOf(claims), m.ID) {
				tr.Errorf("%s finds no memory", user)
			}
		}
	}},
	{"a user alone has most of the slots", func(tr *trial) {
		const slots = 40
		messages := tr.acceptMany(slots)
		claims, _ := tr.claim(slots)
		if len(claims) < slots/2 || len(claims) == slots {
			tr.Errorf("%d claims, want more than half of %d slots, and not all", len(claims), slots)
		}
		if more, next := tr.claim(slots - len(claims)); len(more) > 0 || !next.IsZero() {
			tr.Errorf("%d more claims, next %v; want none until some have ended", len(more), next)
		}
		tr.settleAll(claims)
		rest, _ := tr.claim(slots)
		if len(claims)+len(rest) != len(messages) {
			tr.Errorf("%d claims, and %d when those were settled, want %d", len(claims), len(rest), len(messages))
		}
	}},
	{"every due message is handed out in the end", func(tr *trial) {
		lanes := tr.acceptInLanes(3)
		claimed := map[posthaste.MessageID]bool{}
		for range 3 * lanes {
			claims, _ := tr.claim(lanes)
			for _, c := range claims {
				claimed[c.Message.ID] = true
				tr.settle(store.Delivered(c))
			}
		}
		if len(claimed) != 3*lanes {
			tr.Errorf("%d messages handed out, want %d", len(claimed), 3*lanes)
		}
	}},
	{"no more than the limit are handed out", func(tr *trial) {
		tr.acceptMany(5)
		claims, next := tr.claim(2)
		if len(claims) != 2 {
			tr.Errorf("%d claims, want 2", len(claims))
		}
		if next.IsZero() || next.After(tr.now) {
			tr.Errorf("next = %v while messages are due, want %v or earlier", next, tr.now)
		}
		if rest, _ := tr.claim(plenty); len(rest) != 3 {
			tr.Errorf("%d claims afterwards, want 3", len(rest))
		}
	}},
	{"next is when the next message is due", func(tr *trial) {
		tr.accept(delayed(2 * time.Minute))
		sooner := tr.accept(delayed(time.Minute))
		tr.wantNext(sooner.NotBefore)
		now := tr.accept()
		claims, next := tr.claim(plenty)
		if len(claims) != 1 || claims[0].Message.ID != now.ID || !next.Equal(sooner.NotBefore) {
			tr.Errorf("Claim = %v, next %v, want %s and %v", idsOf(claims), next, now.ID, sooner.NotBefore)
		}
		tr.settle(store.RetryAt(claims[0], tr.now.Add(time.Second), unreachable))
		tr.wantNext(tr.now.Add(time.Second))
	}},
	{"next is zero when nothing waits", func(tr *trial) {
		tr.wantNext(time.Time{})
		m := tr.accept()
		if _, next := tr.claim(plenty); !next.IsZero() {
			tr.Errorf("next = %v when all is claimed, want zero", next)
		}
		tr.cancel(m)
		tr.wantNext(time.Time{})
	}},
	{"wakes for an accepted message", func(tr *trial) {
		tr.accept()
		tr.wantWake()
	}},
	{"wakes for a retry", func(tr *trial) {
		m := tr.accept()
		tr.wantWake()
		tr.settle(store.RetryAt(tr.claimOne(m), tr.now.Add(time.Minute), unreachable))
		tr.wantWake()
	}},
	{"wakes for a released message", func(tr *trial) {
		m := tr.accept()
		tr.wantWake()
		tr.release(tr.claimOne(m))
		tr.wantWake()
	}},
}

func checkOrderInLane(tr *trial) {
	const host = "http://a.example/"
	var messages []*posthaste.Message
	for _, minutes := range []time.Duration{4, 1, 3, 1, 2, 1, 4} {
		messages = append(messages, tr.accept(sentTo(host), delayed(minutes*time.Minute)))
	}
	slices.SortFunc(messages, func(a, b *posthaste.Message) int {
		if order := a.NotBefore.Compare(b.NotBefore); order != 0 {
			return order
		}
		return bytes.Compare(a.ID[:], b.ID[:])
	})
	tr.wait(time.Hour)
	tr.wantOrder(messages...)
}

// wantOrder claims and delivers one message after the other.
func (tr *trial) wantOrder(messages ...*posthaste.Message) {
	tr.Helper()
	for i, m := range messages {
		claims, _ := tr.claim(1)
		if len(claims) != 1 || claims[0].Message.ID != m.ID {
			tr.Fatalf("claim %d is %v, want %s, due %v", i+1, idsOf(claims), m.ID, m.NotBefore)
		}
		tr.settle(store.Delivered(claims[0]))
	}
	tr.wantNoClaims()
}

// leavesRoom lets a user have more lanes than there are slots, and nothing in them ever
// ends. Another user finds a slot all the same, and so does a third.
func leavesRoom(inLane func(*posthaste.Message)) func(*trial) {
	const slots = 40
	return func(tr *trial) {
		tr.acceptMany(2*slots, inLane, ownedBy("greedy"))
		claims, _ := tr.claim(slots)
		free := slots - len(claims)
		for _, user := range []string{ann, anna} {
			m := tr.accept(ownedBy(user))
			claims, _ := tr.claim(free)
			if !slices.Contains(idsOf(claims), m.ID) {
				tr.Errorf("%s finds no slot, %d of %d are free", user, free, slots)
			}
			free -= len(claims)
		}
	}
}

// acceptInLanes accepts so many messages in each of some lanes, one lane after
// the other, and returns the number of lanes. Most have a name in common and
// differ in their kind or user.
func (tr *trial) acceptInLanes(each int) (lanes int) {
	tr.Helper()
	const name = "same.example"
	edits := []func(*posthaste.Message){
		sentTo("http://" + name + "/path"),
		func(m *posthaste.Message) { m.User, m.URL = anna, "http://"+name+"/path" },
		func(m *posthaste.Message) { m.Queue = name },
		func(m *posthaste.Message) { m.FlowControl.Key = name },
		sentTo("http://" + name + ":8080/path"),
		func(m *posthaste.Message) { m.Queue = "q"; m.FlowControl.Key = name },
	}
	for _, edit := range edits {
		for range each {
			tr.accept(edit)
		}
	}
	return len(edits)
}

func lanesOf(claims []store.Claim) map[string]bool {
	lanes := map[string]bool{}
	for _, c := range claims {
		lanes[fmt.Sprint(c.Message.User, c.Message.Lane())] = true
	}
	return lanes
}

// wantNext requires that nothing is due and that the next message is at the time.
func (tr *trial) wantNext(want time.Time) {
	tr.Helper()
	claims, next := tr.claim(plenty)
	if len(claims) > 0 || !next.Equal(want) {
		tr.Errorf("Claim = %v, next %v, want none and %v", idsOf(claims), next, want)
	}
}

// wantWake requires that the store wakes a caller of Claim. It drains what was
// signalled, so that the next signal is a new one.
func (tr *trial) wantWake() {
	tr.Helper()
	select {
	case <-tr.store.Wake():
	case <-time.After(tr.patience):
		tr.Fatal("no wake-up")
	}
}
