package flow_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/flow"
)

// A place in a lane, as tests write it: n not begun, b begun, l lingers, c claimed, e ended.
const (
	notBegun = 'n'
	begun    = 'b'
	lingers  = 'l'
	claimed  = 'c'
	ended    = 'e'
)

var standings = map[rune]flow.Standing{notBegun: flow.NotBegun, begun: flow.Begun, lingers: flow.Lingers}

// mayStart returns the indexes of the messages that Slots allows to start.
func mayStart(queue *posthaste.Queue, lane []rune) (may []int) {
	inFlight, kept := 0, 0
	for _, m := range lane {
		switch m {
		case claimed:
			inFlight++
		case begun, lingers:
			kept++
		}
	}
	slots := flow.NoSlots()
	if queue != nil {
		slots = flow.QueueSlots(queue, inFlight, kept)
	}
	for i, m := range lane {
		standing, waits := standings[m]
		if !waits {
			continue
		}
		if slots.Done() {
			break
		}
		if slots.Next(standing) {
			may = append(may, i)
		}
	}
	return may
}

// Contract, messages 6.1.
func TestSlots(t *testing.T) {
	wide := func(parallelism int) *posthaste.Queue { return &posthaste.Queue{Parallelism: parallelism} }
	for name, c := range map[string]struct {
		queue *posthaste.Queue
		lane  string
		want  []int
	}{
		"the first":                              {wide(1), "nn", []int{0}},
		"one begins after the other":             {wide(3), "nnn", []int{0}},
		"none beside an attempt":                 {wide(1), "cnn", nil},
		"one beside an attempt":                  {wide(2), "cnn", []int{1}},
		"a retry":                                {wide(1), "bn", []int{0}},
		"a retry, and the next to begin":         {wide(2), "bnn", []int{0, 1}},
		"retries do not wait for each other":     {wide(3), "bbn", []int{0, 1, 2}},
		"a slot is kept until callbacks end":     {wide(1), "ln", nil},
		"the other slot is not":                  {wide(2), "ln", []int{1}},
		"a released message is the first again":  {wide(3), "nbn", []int{0, 1}},
		"but waits while later ones have begun":  {wide(1), "nbn", []int{1}},
		"or linger":                              {wide(1), "nln", nil},
		"fewer slots: the earlier retry":         {wide(1), "bbn", []int{0}},
		"fewer slots: attempts in flight go on":  {wide(1), "bcn", nil},
		"fewer slots: beside those":              {wide(2), "bbcn", []int{0}},
		"fewer slots: a later one that lingers":  {wide(1), "bln", []int{0}},
		"fewer slots: an earlier one that does":  {wide(1), "lbn", nil},
		"paused":                                 {&posthaste.Queue{Parallelism: 9, Paused: true}, "bnn", nil},
		"an empty queue":                         {wide(9), "", nil},
		"no queue":                               {nil, "nn", []int{0}},
		"no queue: whatever is in flight":        {nil, "ccccnn", []int{4}},
		"no queue: nothing waits for an attempt": {nil, "cc", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mayStart(c.queue, []rune(c.lane)); !slices.Equal(got, c.want) {
				t.Errorf("%v of %q may start, want %v", got, c.lane, c.want)
			}
		})
	}
}

// naively reports whether a message of a queue may start, looking at all others.
func naively(queue *posthaste.Queue, lane []rune, at int) bool {
	used := 0
	for i, other := range lane {
		switch {
		case i == at || other == ended:
		case other == notBegun:
			if i < at && lane[at] == notBegun {
				return false // that one begins first
			}
		case lane[at] == notBegun || i < at || other == claimed:
			used++
		}
	}
	return (lane[at] == notBegun || lane[at] == begun) && !queue.Paused && used < queue.Parallelism
}

// Whatever happens in a queue, those may start that a look at all messages allows. No message
// begins after a later one, or when it would use more slots than there are, and no more attempts
// start than there are slots.
func TestSlotsAgreeWithTheNaiveRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := &posthaste.Queue{Parallelism: rapid.IntRange(1, 5).Draw(t, "parallelism")}
		lane := slices.Repeat([]rune{notBegun}, rapid.IntRange(1, 12).Draw(t, "messages"))
		tried := make([]bool, len(lane)) // that have had an attempt
		count := func(of ...rune) (n int) {
			for _, m := range lane {
				if slices.Contains(of, m) {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var want []int
			for i := range lane {
				if naively(queue, lane, i) {
					want = append(want, i)
				}
			}
			may := mayStart(queue, lane)
			if !slices.Equal(may, want) {
				t.Fatalf("%v of %q may start in %+v, want %v", may, string(lane), queue, want)
			}
			at := rapid.IntRange(0, len(lane)-1).Draw(t, "which")
			switch step := rapid.SampledFrom([]string{"start", "start", "settle", "settle", "widen", "pause"}).Draw(t, "step"); {
			case step == "start" && len(may) > 0:
				at = may[at%len(may)]
				begins := lane[at] == notBegun
				lane[at] = claimed
				if begins && !tried[at] && slices.Contains(tried[at:], true) {
					t.Fatalf("message %d of %q begins after a later one", at, string(lane))
				}
				if begins && count(begun, lingers, claimed) > queue.Parallelism || count(claimed) > queue.Parallelism {
					t.Fatalf("message %d of %q starts in %+v", at, string(lane), queue)
				}
				tried[at] = true
			case step == "settle" && lane[at] == claimed:
				lane[at] = rapid.SampledFrom([]rune{ended, begun, lingers, notBegun}).Draw(t, "result")
			case step == "settle" && lane[at] == lingers:
				lane[at] = ended
			case step == "widen":
				queue = &posthaste.Queue{Parallelism: rapid.IntRange(1, 5).Draw(t, "parallelism")}
			case step == "pause":
				queue.Paused = !queue.Paused
			}
		}
	})
}
