package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	flowKeys     = flag.Int("flow-keys", 40, "how many flow-control keys the flow test uses")
	flowMessages = flag.Int("flow-messages", 4000, "how many messages it publishes to them")
)

// TestFlowControl delivers messages of many flow-control keys with different
// limits, and compares with them when the log says that attempts began and ended,
// and what arrived (contract, messages 6.5). How long it takes is only reported,
// next to how long it must take at least. For a long run, with a program that was
// built without the race detector:
//
//	POSTHASTE_E2E_BINARY=$PWD/bin/posthaste go test -run TestFlowControl -v -timeout 1h ./e2e \
//		-flow-keys=200 -flow-messages=50000
func TestFlowControl(t *testing.T) {
	random := newRandom(t)
	m := newMeter(t)
	_, c := startServe(t, t.TempDir(), "--log-level", "error")
	lanes := newFlowLanes(random)
	for _, l := range lanes {
		c.post(t, "/v2/flowControl/"+l.key+"/pause", "")
	}
	c.publishAll(t, flowItems(m, lanes, random))
	resumed := time.Now()
	for _, l := range lanes {
		c.post(t, "/v2/flowControl/"+l.key+"/resume", "")
	}
	m.waitForDeliveries(t, *flowMessages)
	took := time.Since(resumed)

	var log []logEntry
	await(t, "the log has all that happened", func() bool {
		log = c.allLogs(t)
		return len(log) >= 3**flowMessages // created, active, delivered
	})
	attempts, began := readAttempts(log)
	checkArrivals(t, log, began, m.taken())
	for _, l := range lanes {
		l.check(t, attempts[l.key], m.mostInFlight(l.key))
	}
	least := slices.MaxFunc(lanes, func(a, b flowLane) int { return int(a.least() - b.least()) }).least()
	t.Logf("%d messages of %d keys took %v, at least %v, ratio %.2f",
		*flowMessages, len(lanes), took.Round(time.Millisecond), least, float64(took)/float64(least))
}

// flowLane is a flow-control key and its limits. A rate or a parallelism of zero
// is no limit.
type flowLane struct {
	key         string
	rate        int
	period      time.Duration
	parallelism int
	messages    int
}

// newFlowLanes makes the keys: in turn some with a rate, some with a parallelism
// and some with both.
func newFlowLanes(random *rand.Rand) []flowLane {
	pick := func(choices ...int) int { return choices[random.IntN(len(choices))] }
	lanes := make([]flowLane, *flowKeys)
	for i := range lanes {
		l := flowLane{key: fmt.Sprintf("key-%d", i), period: time.Second}
		if i%3 != 1 {
			l.rate, l.period = pick(20, 35, 60), time.Duration(pick(1, 2))*time.Second
		}
		if i%3 != 0 {
			l.parallelism = pick(1, 2, 4, 8)
		}
		l.messages = *flowMessages / len(lanes)
		if i < *flowMessages%len(lanes) {
			l.messages++
		}
		lanes[i] = l
	}
	return lanes
}

// flowItems returns the messages of all keys, shuffled. Their answers take a
// moment, so that attempts overlap where they may.
func flowItems(m *meter, lanes []flowLane, random *rand.Rand) []batchItem {
	var items []batchItem
	for _, l := range lanes {
		item := batchItem{
			Destination: m.url + "/" + answerLate + "/" + l.key,
			Headers:     map[string]string{"Upstash-Flow-Control-Key": l.key, "Upstash-Flow-Control-Value": l.value()},
		}
		items = append(items, slices.Repeat([]batchItem{item}, l.messages)...)
	}
	random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

// value returns the limits as the header that brings them.
func (l flowLane) value() string {
	var parts []string
	if l.parallelism > 0 {
		parts = append(parts, fmt.Sprintf("parallelism=%d", l.parallelism))
	}
	if l.rate > 0 {
		parts = append(parts, fmt.Sprintf("rate=%d, period=%ds", l.rate, l.period/time.Second))
	}
	return strings.Join(parts, ", ")
}

// least returns how long the messages of the key take at least: full windows
// but for the last one, which takes no time, or full slots.
func (l flowLane) least() time.Duration {
	var byRate, bySlots time.Duration
	if l.rate > 0 {
		byRate = time.Duration((l.messages-1)/l.rate) * l.period
	}
	if l.parallelism > 0 {
		bySlots = time.Duration((l.messages+l.parallelism-1)/l.parallelism) * lateness
	}
	return max(byRate, bySlots)
}

// lateness is how long the sink takes for an answer that is late.
const lateness = 20 * time.Millisecond

// check compares the attempts of the key, as the log tells of them and as the sink
// saw them, with its limits.
func (l flowLane) check(t *testing.T, logged *flowAttempts, seenInFlight int) {
	t.Helper()
	if logged == nil || len(logged.starts) != l.messages {
		t.Errorf("%s: the log tells of %+v, want %d attempts", l.key, logged, l.messages)
		return
	}
	if most := max(logged.most, seenInFlight); l.parallelism > 0 && most > l.parallelism {
		t.Errorf("%s: %d attempts were in flight at once, the parallelism is %d", l.key, most, l.parallelism)
	}
	if at := l.firstExcess(logged.starts); at >= 0 {
		t.Errorf("%s: attempt %d began %v after the first one, too early for %d every %v",
			l.key, at, logged.starts[at].latest-logged.starts[0].latest, l.rate, l.period)
	}
}

// firstExcess returns the index of the first attempt that the rate does not
// allow, -1 if there is none. A window begins with the first attempt after the
// end of the window before it. Of an attempt's start only a span is known, so this
// keeps every window the attempts so far may have ended in. An excess is what no
// times within the spans can explain.
func (l flowLane) firstExcess(starts []span) int {
	if l.rate == 0 {
		return -1
	}
	var possible map[flowWindow]bool
	for i, start := range starts {
		next := make(map[flowWindow]bool)
		if i == 0 {
			next[flowWindow{start, 1}] = true
		}
		for w := range possible {
			// It started before the end of the window, or else began one.
			if inside := max(w.began.earliest, start.earliest-l.period+1); inside <= w.began.latest && w.count < l.rate {
				next[flowWindow{span{inside, w.began.latest}, w.count + 1}] = true
			}
			if begin := max(start.earliest, w.began.earliest+l.period); begin <= start.latest {
				next[flowWindow{span{begin, start.latest}, 1}] = true
			}
		}
		if len(next) == 0 {
			return i
		}
		possible = next
	}
	return -1
}

// flowWindow is a window that counted so many attempts.
type flowWindow struct {
	began span
	count int
}

func TestFirstExcess(t *testing.T) {
	onceOnly(t)
	lane := flowLane{rate: 2, period: time.Second}
	tests := map[string]struct {
		unsure int   // how long before its time an attempt may have started, ms
		starts []int // ms
		want   int
	}{
		"none":                          {0, nil, -1},
		"full windows":                  {0, []int{0, 1, 1000, 1001, 2000, 2001}, -1},
		"one too many":                  {0, []int{0, 1, 999}, 2},
		"one too early":                 {0, []int{0, 1, 1000, 1001, 1999}, 4},
		"a window that begins late":     {0, []int{0, 1, 1500, 1501, 2499}, 4},
		"slow":                          {0, []int{0, 1000, 2000, 3000}, -1},
		"one too many, unsurely":        {100, []int{0, 1, 500}, 2},
		"one too early, unsurely":       {100, []int{0, 1, 1000, 1001, 1899}, 4},
		"early, but not for sure":       {100, []int{0, 1, 1000, 1001, 1900}, -1},
		"one late, its window full":     {100, []int{0, 1050, 1051, 1052}, -1},
		"perhaps early, then too early": {100, []int{0, 1, 900, 901, 1800}, 4},
		"slow, then two full windows":   {100, []int{0, 950, 1850, 1910, 1920}, -1},
		"faster than the rate, evenly":  {100, []int{0, 400, 800, 1200, 1600}, 2},
		"as fast as the rate, unevenly": {100, []int{0, 90, 930, 1010, 1950, 2000}, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var starts []span
			for _, at := range test.starts {
				starts = append(starts, span{milliseconds(at - test.unsure), milliseconds(at)})
			}
			if got := lane.firstExcess(starts); got != test.want {
				t.Errorf("first excess at %d, want %d", got, test.want)
			}
		})
	}
}
