package lanes

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste"
)

// limitsInMemory are queues and flow-control keys that are stored, when nothing else is.
type limitsInMemory struct {
	nothingOnDisk
	queues map[string]posthaste.Queue
	keys   map[string]posthaste.FlowKey
}

func (d *limitsInMemory) ReadQueue(_, name string) (*posthaste.Queue, error) {
	q := d.queues[name]
	return &q, nil
}

func (d *limitsInMemory) KeyHome(user, _ string) string { return user }

func (d *limitsInMemory) ReadFlowKey(_, name string) (*posthaste.FlowKey, error) {
	k := d.keys[name]
	return &k, nil
}

// observed is a message in a scheduler.
type observed struct {
	lane ID
	Item
	claim *Lease // nil: it waits
	holds int
	gone  bool
}

// observedLanes are all messages, in order, and what limits them.
type observedLanes struct {
	*limitsInMemory
	messages []*observed
}

func (k *observedLanes) inFlight(key string) (n int) {
	for _, m := range k.messages {
		if m.claim != nil && m.Waiting.FlowKey == key {
			n++
		}
	}
	return n
}

// mayStart looks at all other messages.
func (k *observedLanes) mayStart(m *observed, now time.Time) bool {
	if m.claim != nil || m.holds > 0 || m.gone || m.Waiting.Ended || m.Waiting.ReadyMS > now.UnixMilli() {
		return false
	}
	key, limited := k.keys[m.Waiting.FlowKey]
	if limited && (key.Paused || key.Parallelism > 0 && k.inFlight(key.Key) >= key.Parallelism) {
		return false
	}
	strict, begun, used, earlier := m.lane.Kind == posthaste.LaneQueue, m.Waiting.Retried > 0, 0, true
	for _, other := range k.messages {
		switch uses := other.claim != nil || strict && (other.Waiting.Retried > 0 || other.Waiting.Ended); {
		case other == m:
			earlier = false
		case other.lane != m.lane || other.gone:
		case !uses:
			if earlier && !(strict && begun) && (strict || other.holds == 0) {
				return false
			}
		case !begun || earlier || other.claim != nil:
			used++
		}
	}
	queue := k.queues[m.lane.Name]
	return !strict || !queue.Paused && used < queue.Parallelism
}

// TestSchedulerAgreesWithTheNaiveRule has messages come and go, and limits change: a claim gives
// those that a look at all messages allows, and leaves none of these.
func TestSchedulerAgreesWithTheNaiveRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names, keys := []string{"p", "q"}, []string{"a", "b"}
		lanes := &observedLanes{limitsInMemory: &limitsInMemory{queues: map[string]posthaste.Queue{}, keys: map[string]posthaste.FlowKey{}}}
		for _, name := range names {
			lanes.queues[name] = posthaste.Queue{Name: name, Parallelism: 2}
		}
		for _, key := range keys {
			lanes.keys[key] = posthaste.FlowKey{Key: key}
		}
		s, now := New(lanes, 0), lineNow
		choose := func(what string, of func(*observed) bool) *observed {
			some := slices.DeleteFunc(slices.Clone(lanes.messages), func(m *observed) bool { return m.gone || !of(m) })
			if len(some) == 0 {
				return nil
			}
			return rapid.SampledFrom(some).Draw(t, what)
		}
		claimed := func(m *observed) bool { return m.claim != nil }
		waits := func(m *observed) bool { return m.claim == nil && m.holds == 0 }
		end := func(m *observed, again bool) {
			var it *Item
			if again {
				it = &Item{Spot: m.Spot, Waiting: m.Waiting}
			}
			s.EndSettle(m.claim, it)
			m.claim, m.gone = nil, !again
		}
		steps := map[string]func(){
			"add": func() {
				m := &observed{Item: Item{Spot: Spot{Order: posthaste.Position(len(lanes.messages) + 1)}}}
				m.ID[0] = byte(len(lanes.messages) + 1)
				m.Waiting.FlowKey = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key")
				m.lane = ID{"ann", posthaste.Lane{Kind: posthaste.LaneHost, Name: "host"}}
				if m.Waiting.FlowKey != "" {
					m.lane.Lane = posthaste.Lane{Kind: posthaste.LaneFlow, Name: m.Waiting.FlowKey}
				}
				if rapid.IntRange(0, 3).Draw(t, "in a queue") > 0 {
					m.lane.Lane = posthaste.Lane{Kind: posthaste.LaneQueue, Name: rapid.SampledFrom(names).Draw(t, "queue")}
				}
				lanes.messages = append(lanes.messages, m)
				s.Add(m.lane, &Item{Spot: m.Spot, Waiting: m.Waiting})
			},
			"deliver": func() {
				if m := choose("delivered", claimed); m != nil {
					end(m, false)
				}
			},
			"linger": func() {
				if m := choose("lingers", func(m *observed) bool { return claimed(m) && m.lane.Kind == posthaste.LaneQueue }); m != nil {
					m.Waiting.Ended = true
					end(m, true)
				}
			},
			"retry": func() {
				if m := choose("retried", claimed); m != nil {
					m.Waiting.Retried++
					if m.lane.Kind == posthaste.LaneQueue { // elsewhere it would also get another place
						m.Waiting.ReadyMS = now.UnixMilli() + int64(rapid.SampledFrom([]int{0, 0, 1000}).Draw(t, "delay"))
					}
					end(m, true)
				}
			},
			"release": func() {
				if m := choose("released", claimed); m != nil {
					s.Release(m.ID, m.claim.Token)
					m.claim = nil
				}
			},
			"drop": func() {
				if m := choose("dropped", waits); m != nil {
					s.Hold("ann", m.ID)
					s.Move(m.lane, m.Spot, nil)
					m.gone = true
				}
			},
			"hold": func() {
				if m := choose("held", func(m *observed) bool { return !claimed(m) }); m != nil {
					s.Hold("ann", m.ID)
					m.holds++
				}
			},
			"let go": func() {
				if m := choose("let go", func(m *observed) bool { return m.holds > 0 }); m != nil {
					s.Unhold(m.lane, m.ID)
					m.holds--
				}
			},
			"queue": func() {
				q := posthaste.Queue{Name: rapid.SampledFrom(names).Draw(t, "queue"), Parallelism: rapid.IntRange(1, 3).Draw(t, "parallelism"), Paused: rapid.IntRange(0, 3).Draw(t, "pause") == 0}
				lanes.queues[q.Name] = q
				s.ChangeQueue("ann", &q)
			},
			"key": func() {
				key := posthaste.FlowKey{Key: rapid.SampledFrom(keys).Draw(t, "key"), Paused: rapid.IntRange(0, 2).Draw(t, "pause") == 0}
				key.Parallelism = rapid.IntRange(0, 2).Draw(t, "parallelism")
				lanes.keys[key.Key] = key
				s.ChangeFlowKey("ann", key, false)
			},
			"wait": func() { now = now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "wait")) * time.Millisecond) },
		}
		kinds := []string{"add", "add", "add", "deliver", "linger", "retry", "retry", "release", "drop", "hold", "let go", "let go", "queue", "key", "wait"}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			steps[rapid.SampledFrom(kinds).Draw(t, "step")]()
			slots := rapid.SampledFrom([]int{1, 1000}).Draw(t, "slots")
			leases, _, err := s.Claim(now, slots)
			if err != nil {
				t.Fatal(err)
			}
			for _, held := range leases {
				m := lanes.messages[held.Order-1]
				if !lanes.mayStart(m, now) {
					t.Fatalf("message %d of %v starts, and may not", m.Order, m.lane)
				}
				m.claim = held
			}
			for _, m := range lanes.messages {
				if slots > 1 && lanes.mayStart(m, now) {
					t.Fatalf("message %d of %v does not start, and may", m.Order, m.lane)
				}
			}
		}
	})
}
