package index

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store"
)

// covered reports whether what has some terms is found by lists.
func covered(terms []store.Term, lists [][]store.Term) bool {
	return !slices.ContainsFunc(lists, func(list []store.Term) bool {
		return !slices.ContainsFunc(list, func(t store.Term) bool { return slices.Contains(terms, t) })
	})
}

// draw is a source of values that often meet again.
type draw struct{ *rapid.T }

func from[T any](d draw, values ...T) T { return rapid.SampledFrom(values).Draw(d.T, "value") }

// some draws values for a filter, mostly none.
func some[T any](d draw, one func() T) (values []T) {
	if from(d, true, true, false) {
		return nil
	}
	for range from(d, 1, 2, 5) {
		values = append(values, one())
	}
	return values
}

func (d draw) name() string { return from(d, "", "a", "b", "A", "state", "CREATED") }

func (d draw) url() string {
	return from(d, "http://a.example", "https://A.Example:80/p?q", "http://a.example:80/p/", "http://[::1]:8/p", "http://[::1]", "http://k\u212a.example/p", "no url", "")
}

func (d draw) host() string {
	return from(d, "a.example", "A.EXAMPLE:80", "[::1]", "[::1]:8", "kk.example", "\u017f.example", "")
}

func (d draw) path() string    { return from(d, "", "/p", "/p/") }
func (d draw) status() int     { return from(d, 0, 200, 503) }
func (d draw) time() time.Time { return time.UnixMilli(from(d, int64(1), 1_700_000_000_000)) }
func (d draw) names() []string { return some(d, d.name) }

func (d draw) id() posthaste.MessageID { return posthaste.MessageID{0: 1, 15: from(d, byte(1), 2)} }

func (d draw) callback() posthaste.CallbackState {
	return from(d, "", posthaste.CallbackState("SUCCESS"), "FAILED")
}

func (d draw) settings() posthaste.Settings {
	return posthaste.Settings{Labels: d.names(), FlowControl: posthaste.FlowControl{Key: d.name()}}
}

func (d draw) message() *posthaste.Message {
	m := &posthaste.Message{
		ID: d.id(), URL: d.url(), URLGroup: d.name(), ScheduleID: d.name(), Queue: d.name(),
		CallerIP: d.name(), Settings: d.settings(),
	}
	if from(d, true, false) {
		m.Run = &posthaste.RunLink{RunRef: posthaste.RunRef{ID: d.name(), URL: d.url()}}
	}
	return m
}

func (d draw) run() *posthaste.Run {
	run := &posthaste.Run{
		RunRef: posthaste.RunRef{ID: d.name(), URL: d.url(), CreatedAt: d.time()}, CallerIP: d.name(), Settings: d.settings(),
	}
	run.State, run.FailedStatus = from(d, posthaste.RunStarted, posthaste.RunFailed), d.status()
	if from(d, true, false) {
		run.Reported = &posthaste.RunCallback{State: d.callback()}
	}
	return run
}

// What matches a filter has a term of each list, so an index that has its terms finds it.
func TestEventsThatMatchAreFound(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		m, state := d.message(), from(d, posthaste.States...)
		f := posthaste.Filter{
			MessageIDs: some(d, d.id), States: some(d, func() posthaste.State { return from(d, posthaste.States...) }),
			URLs: some(d, d.url), URLGroups: d.names(), ScheduleIDs: d.names(), Queues: d.names(), Labels: d.names(),
			Hosts: some(d, d.host), Paths: some(d, d.path), CallerIPs: d.names(), FlowKeys: d.names(),
			OfRuns: from(d, true, false), RunIDs: d.names(), WorkflowURLs: some(d, d.url),
		}
		if from(d, true, false) { // or most would not match
			f = posthaste.Filter{Hosts: f.Hosts, URLGroups: f.URLGroups, Labels: f.Labels, OfRuns: f.OfRuns, RunIDs: f.RunIDs}
		}
		e := posthaste.Event{MessageID: m.ID, State: state, Attempt: posthaste.Attempt{Status: from(d, 0, 204, 500, 503)}}
		if !f.MatchesEvent(&e, m) {
			return
		}
		matched++
		if !covered(AppendEvent(nil, m, &e), Events(&f)) {
			t.Fatalf("%+v matches %+v and is not found", m, f)
		}
	})
	if matched < 5 && !testing.Short() { // which makes fewer
		t.Errorf("only %d events matched", matched)
	}
}

func TestDeadLettersThatMatchAreFound(t *testing.T) {
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		letter := &posthaste.DeadLetter{Message: d.message()}
		if from(d, true, false) {
			letter.Response = &posthaste.Response{Status: d.status()}
		}
		f := posthaste.Filter{
			MessageIDs: some(d, d.id), URLs: some(d, d.url), URLGroups: d.names(), ScheduleIDs: d.names(), Queues: d.names(),
			Labels: d.names(), CallerIPs: d.names(), FlowKeys: d.names(), Statuses: some(d, d.status),
		}
		if from(d, true, false) {
			f = posthaste.Filter{Queues: f.Queues, Statuses: f.Statuses, Labels: f.Labels}
		}
		if !f.MatchesDeadLetter(letter) {
			return
		}
		matched++
		if !covered(DeadLetter(letter), DeadLetters(&f)) {
			t.Fatalf("%+v matches %+v and is not found", letter, f)
		}
	})
	if matched < 5 && !testing.Short() { // which makes fewer
		t.Errorf("only %d dead letters matched", matched)
	}
}

// Where the terms are the whole filter, nothing else is found.
func TestRunsThatMatchAreFound(t *testing.T) {
	matched, whole := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		run := d.run()
		q := store.RunQuery{Failed: from(d, true, false), Filter: posthaste.Filter{
			RunIDs: d.names(), RunIDPrefixes: d.names(), URLs: some(d, d.url), URLPrefixes: d.names(), Hosts: some(d, d.host), Paths: some(d, d.path),
			RunStates: some(d, func() posthaste.RunState { return from(d, posthaste.RunStarted, posthaste.RunFailed) }),
			Labels:    d.names(), CallerIPs: d.names(), FlowKeys: d.names(),
			CreatedAts: some(d, d.time), Statuses: some(d, d.status),
			CallbackStates: some(d, func() posthaste.CallbackState { return from(d, posthaste.CallbackState("SUCCESS"), "FAILED") }),
		}}
		f := &q.Filter
		if from(d, true, false) {
			*f = posthaste.Filter{RunIDs: f.RunIDs, Statuses: f.Statuses, RunStates: f.RunStates, CallerIPs: f.CallerIPs, CallbackStates: f.CallbackStates}
		}
		terms := Run(run)
		if q.Failed {
			terms = FailedRun(run)
		}
		lists, all := Runs(&q)
		switch matches, found := f.MatchesRun(run), covered(terms, lists); {
		case matches && !found:
			t.Fatalf("%+v matches %+v and is not found", run, q)
		case all && found && !matches:
			t.Fatalf("%+v is found by the whole of %+v and does not match", run, q)
		case matches:
			matched++
		}
		if all {
			whole++
		}
	})
	if !testing.Short() && (matched < 5 || whole < 5) {
		t.Errorf("only %d runs matched, and only %d filters are whole", matched, whole)
	}
}

func TestFieldsDiffer(t *testing.T) {
	m := &posthaste.Message{
		URL: "x", URLGroup: "x", ScheduleID: "x", Queue: "x", CallerIP: "x",
		Settings: posthaste.Settings{Labels: []string{"x"}, FlowControl: posthaste.FlowControl{Key: "x"}},
		Run:      &posthaste.RunLink{RunRef: posthaste.RunRef{ID: "x", URL: "x"}},
	}
	terms := AppendEvent(nil, m, &posthaste.Event{State: posthaste.StateError})
	seen := map[store.Term]bool{}
	for _, term := range terms {
		if seen[term] || term == Any {
			t.Errorf("%v is there twice, or that of all events", term)
		}
		seen[term] = true
	}
	if len(terms) != 17 {
		t.Errorf("%d terms, want 17", len(terms))
	}
}

func TestCreatedAt(t *testing.T) {
	made := time.UnixMilli(1_700_000_000_123)
	id, err := posthaste.NewMessageID(made, strings.NewReader("ten random"))
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := CreatedAt(Message(id)); !ok || !at.Equal(made) {
		t.Errorf("made at %v, %t", at, ok)
	}
	if _, ok := CreatedAt(State(posthaste.StateCreated)); ok {
		t.Error("a state is a message")
	}
}

// EventTerms agrees with AppendEvent, and allocates nothing.
func TestEventTerms(t *testing.T) {
	var e EventTerms
	messages := []*posthaste.Message{
		{URL: "http://a.example:80/p", Queue: "q", Settings: posthaste.Settings{Labels: []string{"a", "b"}}},
		{URL: "http://b.example/p", Run: &posthaste.RunLink{RunRef: posthaste.RunRef{URL: "http://b.example/p"}}},
	}
	check := func() {
		for _, m := range messages {
			for _, state := range []posthaste.State{posthaste.StateError, posthaste.StateRetry} {
				if got, want := e.Of(m, &posthaste.Event{State: state}), AppendEvent(nil, m, &posthaste.Event{State: state}); !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
			}
		}
	}
	check()
	e.Forget()
	check()
	failed, retried := &posthaste.Event{State: posthaste.StateError}, &posthaste.Event{State: posthaste.StateRetry}
	if n := testing.AllocsPerRun(100, func() {
		for _, m := range messages {
			e.Of(m, failed)
			e.Of(m, retried)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
