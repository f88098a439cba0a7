package e2e

import (
	"path"
	"slices"
	"testing"
	"time"

	"posthaste"
)

// span is when something happened, as far as that is known, in Unix time with both
// ends included.
type span struct{ earliest, latest time.Duration }

func milliseconds[N int | int64](n N) time.Duration { return time.Duration(n) * time.Millisecond }

// flowAttempts is what the log tells of the attempts of a key.
type flowAttempts struct {
	starts   []span // in order
	inFlight int
	most     int // of inFlight
}

// readAttempts reads the attempts of each key, the end of their URL, out of a whole
// log, and when the one of each message began. An entry has whole milliseconds, and
// a later time than its own if the entry before it had: times never decrease. So
// only one that is later than the entry before is sure to have its own. What is
// known of the others is that they began no earlier than the attempt before them,
// of whatever key.
func readAttempts(log []logEntry) (byKey map[string]*flowAttempts, began map[string]span) {
	byKey, began = make(map[string]*flowAttempts), make(map[string]span)
	var earliest time.Duration // when the attempt before may have begun
	var before int64           // the time of the entry before
	for i, entry := range log {
		key := path.Base(entry.URL)
		attempts := byKey[key]
		if attempts == nil {
			attempts = &flowAttempts{}
			byKey[key] = attempts
		}
		switch entry.State {
		case posthaste.StateActive:
			if entry.Time > before {
				earliest = milliseconds(entry.Time)
			}
			began[entry.MessageID] = span{earliest, milliseconds(entry.Time+1) - 1}
			attempts.begin(began[entry.MessageID])
		case posthaste.StateDelivered, posthaste.StateError:
			attempts.inFlight--
		}
		if before = entry.Time; i == 0 {
			earliest = milliseconds(entry.Time)
		}
	}
	return byKey, began
}

func (a *flowAttempts) begin(start span) {
	a.starts = append(a.starts, start)
	a.inFlight++
	a.most = max(a.most, a.inFlight)
}

// checkArrivals checks that the log tells the truth: that each message was accepted,
// attempted once and delivered, and that its one attempt arrived between the
// beginning and the end.
func checkArrivals(t *testing.T, log []logEntry, began map[string]span, taken map[string][]arrival) {
	t.Helper()
	want := []posthaste.State{posthaste.StateCreated, posthaste.StateActive, posthaste.StateDelivered}
	lives := make(map[string][]logEntry)
	for _, entry := range log {
		lives[entry.MessageID] = append(lives[entry.MessageID], entry)
	}
	if len(lives) != len(taken) {
		t.Errorf("%d messages are in the log, %d arrived", len(lives), len(taken))
	}
	for id, life := range lives {
		var states []posthaste.State
		for _, entry := range life {
			states = append(states, entry.State)
		}
		if !slices.Equal(states, want) || len(taken[id]) != 1 {
			t.Errorf("%s: the log has %v, and %d attempts arrived", id, states, len(taken[id]))
			continue
		}
		arrived := time.Duration(taken[id][0].at.UnixNano())
		if ended := milliseconds(life[2].Time+1) - 1; arrived < began[id].earliest || arrived > ended {
			t.Errorf("%s arrived at %v, but its attempt began at %v or later and ended at %v", id, arrived, began[id].earliest, ended)
		}
	}
}

func TestReadAttempts(t *testing.T) {
	onceOnly(t)
	entry := func(at int64, state posthaste.State) logEntry {
		return logEntry{Time: at, State: state, URL: "http://a.example/late/k"}
	}
	exactly := func(ms int64) span { return span{milliseconds(ms), milliseconds(ms+1) - 1} }
	tests := map[string]struct {
		log    []logEntry
		starts []span
		most   int
	}{
		"one after the other": {
			[]logEntry{
				entry(1, posthaste.StateCreated), entry(2, posthaste.StateActive), entry(3, posthaste.StateDelivered),
				entry(4, posthaste.StateActive), entry(5, posthaste.StateError),
			},
			[]span{exactly(2), exactly(4)}, 1,
		},
		"two at once": {
			[]logEntry{entry(1, posthaste.StateCreated), entry(2, posthaste.StateActive), entry(3, posthaste.StateActive)},
			[]span{exactly(2), exactly(3)}, 2,
		},
		"perhaps before the time of its entry": {
			[]logEntry{entry(2, posthaste.StateActive), entry(5, posthaste.StateDelivered), entry(5, posthaste.StateActive)},
			[]span{exactly(2), {milliseconds(2), milliseconds(6) - 1}}, 1,
		},
		"of one claim": {
			[]logEntry{entry(2, posthaste.StateCreated), entry(4, posthaste.StateActive), entry(4, posthaste.StateActive)},
			[]span{exactly(4), exactly(4)}, 2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			byKey, _ := readAttempts(test.log)
			got := byKey["k"]
			if !slices.Equal(got.starts, test.starts) || got.most != test.most {
				t.Errorf("%+v, want starts %v and at most %d in flight", got, test.starts, test.most)
			}
		})
	}
}
