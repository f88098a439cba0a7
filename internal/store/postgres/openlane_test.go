package postgres

import (
	"slices"
	"testing"
	"time"

	"posthaste"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// inLane makes a message of a lane that is due some seconds after noon.
func inLane(place posthaste.Position, seconds int) *liveMessage {
	return &liveMessage{place: place, dueMS: noon.Add(time.Duration(seconds) * time.Second).UnixMilli()}
}

func TestServeInTurn(t *testing.T) {
	large := func(l *liveMessage) *liveMessage {
		l.size = maxClaimBytes - 1
		return l
	}
	open := func(lane *openLane, messages []*liveMessage) *openLane {
		for _, l := range messages {
			l.lane = lane.id
			lane.add(l)
		}
		lane.share = -1
		lane.arrange(0)
		return lane
	}
	queue := func(parallelism int, paused bool, messages ...*liveMessage) *openLane {
		settings := &posthaste.Queue{Parallelism: parallelism, Paused: paused}
		return open(&openLane{id: laneID{kind: int16(posthaste.LaneQueue)}, queue: settings}, messages)
	}
	host := func(messages ...*liveMessage) *openLane {
		return open(&openLane{id: laneID{kind: int16(posthaste.LaneHost)}}, messages)
	}
	retry := func(l *liveMessage) *liveMessage {
		l.retried = 1
		return l
	}
	leased := func(l *liveMessage) *liveMessage {
		l.lease = 7
		return l
	}
	under := func(key string, l *liveMessage) *liveMessage {
		l.flowKey = []byte(key)
		return l
	}
	withPausedKey := func(key string, lane *openLane) *openLane {
		lane.keys = map[string]*flowKey{key: {FlowKey: &posthaste.FlowKey{Paused: true}}}
		return lane
	}
	for name, c := range map[string]struct {
		lanes []*openLane
		limit int
		want  []posthaste.Position // the places of what may start
		look  []int                // seconds after noon when to look again at each lane; -1: when something happens
	}{
		"one of each lane in turn": {
			[]*openLane{host(inLane(1, 0), inLane(2, 0)), host(inLane(3, 0), inLane(4, 0))}, 100,
			[]posthaste.Position{1, 3, 2, 4}, []int{-1, -1},
		},
		"the limit leaves lanes to be looked at": {
			[]*openLane{host(inLane(1, 0)), host(inLane(2, 0))}, 1,
			[]posthaste.Position{1}, []int{0, 0},
		},
		"large ones leave lanes to be looked at": {
			[]*openLane{host(large(inLane(1, 0)), inLane(2, 0)), host(large(inLane(3, 0))), host(inLane(4, 0))}, 100,
			[]posthaste.Position{1, 3}, []int{0, 0, 0},
		},
		"one that is too large for others": {
			[]*openLane{host(large(large(inLane(1, 0))))}, 100,
			[]posthaste.Position{1}, []int{-1},
		},
		"the next due time": {
			[]*openLane{host(inLane(1, 0), inLane(2, 5))}, 100,
			[]posthaste.Position{1}, []int{5},
		},
		"a lane at its ceiling": {
			[]*openLane{host(inLane(1, 0), inLane(2, 0))}, 8,
			[]posthaste.Position{1}, []int{1},
		},
		"a queue starts one at a time": {
			[]*openLane{queue(1, false, inLane(1, 0), inLane(2, 0))}, 100,
			[]posthaste.Position{1}, []int{-1},
		},
		"a wide queue at its ceiling": {
			[]*openLane{queue(9, false, inLane(1, 0), inLane(2, 0))}, 8,
			[]posthaste.Position{1}, []int{1},
		},
		"a retry comes before who is next": {
			[]*openLane{queue(1, false, retry(inLane(1, 0)), inLane(2, 0))}, 100,
			[]posthaste.Position{1}, []int{-1},
		},
		"a slot is kept until the retry": {
			[]*openLane{queue(1, false, retry(inLane(1, 9)), inLane(2, 0))}, 100,
			nil, []int{9},
		},
		"a narrowed queue lets the earlier go on": {
			[]*openLane{queue(1, false, retry(inLane(1, 0)), retry(inLane(2, 0)))}, 100,
			[]posthaste.Position{1}, []int{-1},
		},
		"a narrowed queue waits for what is in flight": {
			[]*openLane{queue(1, false, retry(inLane(1, 0)), leased(inLane(2, 0)))}, 100,
			nil, []int{-1},
		},
		"a paused queue": {
			[]*openLane{queue(3, true, inLane(1, 0))}, 100, nil, []int{-1},
		},
		"a retry that its key refuses": {
			[]*openLane{withPausedKey("k", queue(3, false, under("k", retry(inLane(1, 0))), retry(inLane(2, 0)), inLane(3, 9)))}, 100,
			[]posthaste.Position{2}, []int{9},
		},
		"the lane of a key that refuses": {
			[]*openLane{withPausedKey("k", open(&openLane{id: laneID{kind: int16(posthaste.LaneFlow)}},
				[]*liveMessage{under("k", inLane(1, 0)), under("k", inLane(2, 0)), under("k", inLane(3, 9))}))}, 100,
			nil, []int{-1},
		},
		"the next to begin, which its key refuses": {
			[]*openLane{withPausedKey("k", queue(3, false, under("k", inLane(1, 0)), inLane(2, 0)))}, 100,
			nil, []int{-1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			lanes := slices.Clone(c.lanes)
			var got []posthaste.Position
			for _, l := range serveInTurn(lanes, inFlight{users: map[string]int{}}, noon, c.limit) {
				got = append(got, l.place)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("started %v, want %v", got, c.want)
			}
			for i, lane := range c.lanes {
				var want time.Time
				if c.look[i] >= 0 {
					want = noon.Add(time.Duration(c.look[i]) * time.Second)
				}
				if !lane.ready.Equal(want) {
					t.Errorf("lane %d is to be looked at again at %v, want %v", i, lane.ready, want)
				}
			}
		})
	}
}
