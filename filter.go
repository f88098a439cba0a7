package posthaste

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Filter selects events, messages, dead letters or runs by the fields that they have. Fields are
// joined by AND, the values of one field by OR; an empty field selects all.
//
// Bulk actions keep filters: the tags are the stored form, in which a field has a number of its own.
type Filter struct {
	MessageIDs     []MessageID     `cbor:"-"` // store/record keeps them beside the filter
	DeadLetterIDs  []DeadLetterID  `cbor:"1,keyasint,omitempty"`
	RunIDPrefixes  []string        `cbor:"2,keyasint,omitempty"`
	URLs           []string        `cbor:"3,keyasint,omitempty"` // of runs: of their workflows, like URLPrefixes, Hosts and Paths
	URLPrefixes    []string        `cbor:"4,keyasint,omitempty"` // of runs
	URLGroups      []string        `cbor:"5,keyasint,omitempty"`
	ScheduleIDs    []string        `cbor:"6,keyasint,omitempty"`
	Queues         []string        `cbor:"7,keyasint,omitempty"`
	Labels         []string        `cbor:"8,keyasint,omitempty"`
	Hosts          []string        `cbor:"9,keyasint,omitempty"`  // with or without port, any letter case
	Paths          []string        `cbor:"10,keyasint,omitempty"` // without query
	CallerIPs      []string        `cbor:"11,keyasint,omitempty"`
	FlowKeys       []string        `cbor:"12,keyasint,omitempty"`
	Statuses       []int           `cbor:"13,keyasint,omitempty"` // of the response that failed it or, of events, of an attempt; 0: no response
	CallbackStates []CallbackState `cbor:"14,keyasint,omitempty"` // of runs
	CreatedAts     []time.Time     `cbor:"-"`                     // of runs; store/record keeps them beside the filter

	// From and Until limit when it was created or, of what is in a DLQ, when it failed. Both are
	// inclusive; 0: no limit. Queries have a range instead.
	From  Position `cbor:"15,keyasint,omitempty"`
	Until Position `cbor:"16,keyasint,omitempty"`

	States    []State    `cbor:"17,keyasint,omitempty"` // of events
	RunStates []RunState `cbor:"18,keyasint,omitempty"` // of runs
	Positions []Position `cbor:"19,keyasint,omitempty"` // of runs
	RunIDs    []string   `cbor:"20,keyasint,omitempty"` // of runs and, with OfRuns, of events

	// OfRuns selects only events of messages of runs, and events of runs, which are left out
	// otherwise. WorkflowURLs are of their workflows.
	OfRuns       bool     `cbor:"21,keyasint,omitempty"`
	WorkflowURLs []string `cbor:"22,keyasint,omitempty"`

	Methods []string `cbor:"23,keyasint,omitempty"` // upper case
}

// Dated returns the filter without its dates, and the positions between them.
func (f Filter) Dated() (undated Filter, low, high Position) {
	low, high = f.From, cmp.Or(f.Until, MaxPosition)
	f.From, f.Until = 0, 0
	return f, low, high
}

// MatchesEvent reports whether an event of a message matches. Every index must agree with it and
// with the other two.
func (f *Filter) MatchesEvent(event *Event, m *Message) bool {
	return f.MatchesState(event.State) && f.MatchesMessage(m) &&
		(len(f.Statuses) == 0 || event.State.OfAttempt() && slices.Contains(f.Statuses, event.Attempt.Status)) && (!f.OfRuns ||
		m.Run != nil && passes(f.RunIDs, m.Run.ID) && passes(f.WorkflowURLs, m.Run.URL))
}

// MatchesState reports whether events in a state may match.
func (f *Filter) MatchesState(state State) bool {
	return passes(f.States, state) && (f.OfRuns || !state.OfRun())
}

// MatchesMessage reports whether a message matches, apart from what only its events have.
func (f *Filter) MatchesMessage(m *Message) bool {
	return passes(f.MessageIDs, m.ID) &&
		passes(f.URLs, m.URL) &&
		passes(f.URLGroups, m.URLGroup) &&
		passes(f.ScheduleIDs, m.ScheduleID) &&
		passes(f.Queues, m.Queue) &&
		passes(f.CallerIPs, m.CallerIP) &&
		passes(f.FlowKeys, m.FlowControl.Key) &&
		passes(f.Methods, m.Verb()) &&
		passesAny(f.Labels, m.Labels) &&
		f.matchesPlace(m.URL)
}

// MatchesDeadLetter reports whether a dead letter matches.
func (f *Filter) MatchesDeadLetter(d *DeadLetter) bool {
	status := 0
	if d.Response != nil {
		status = d.Response.Status
	}
	return passes(f.DeadLetterIDs, d.ID) && passes(f.Statuses, status) && f.MatchesMessage(d.Message)
}

// MatchesRun reports whether a run matches.
func (f *Filter) MatchesRun(run *Run) bool {
	return passes(f.Positions, run.Position) &&
		passes(f.DeadLetterIDs, run.DeadLetterID) &&
		passes(f.RunIDs, run.ID) &&
		passesPrefix(f.RunIDPrefixes, run.ID) &&
		passes(f.URLs, run.URL) &&
		passesPrefix(f.URLPrefixes, run.URL) &&
		f.matchesPlace(run.URL) &&
		passes(f.RunStates, run.State) &&
		passes(f.CallerIPs, run.CallerIP) &&
		passes(f.FlowKeys, run.FlowControl.Key) &&
		passes(f.Statuses, run.FailedStatus) &&
		passesAny(f.Labels, run.Labels) &&
		(len(f.CallbackStates) == 0 || run.Reported != nil && slices.Contains(f.CallbackStates, run.Reported.State)) &&
		(len(f.CreatedAts) == 0 || slices.ContainsFunc(f.CreatedAts, run.CreatedAt.Equal))
}

// matchesPlace reports whether host and path of a URL match.
func (f *Filter) matchesPlace(rawURL string) bool {
	if len(f.Hosts) == 0 && len(f.Paths) == 0 {
		return true
	}
	host, path := HostAndPath(rawURL)
	return passes(f.Paths, path) && f.MatchesHost(host)
}

// MatchesHost reports whether the host of a URL, as HostAndPath returns it, matches.
func (f *Filter) MatchesHost(host string) bool {
	bare := HostWithoutPort(host)
	return len(f.Hosts) == 0 || slices.ContainsFunc(f.Hosts, func(want string) bool {
		want = strings.ToLower(want) // as HostAndPath does
		return want == host || want == bare
	})
}

func passes[T comparable](wanted []T, value T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, value)
}

func passesAny(wanted, values []string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(values, func(v string) bool { return slices.Contains(wanted, v) })
}

func passesPrefix(wanted []string, value string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(prefix string) bool { return strings.HasPrefix(value, prefix) })
}

// Overrides replace settings of what is retried, restarted or resumed. Unset ones are kept.
type Overrides struct {
	Delay     time.Duration
	NotBefore time.Time
	Settings
}

// StartAt returns when the first attempt is due, not before now.
func (o *Overrides) StartAt(now time.Time) time.Time {
	start := now.Add(o.Delay)
	if !o.NotBefore.IsZero() {
		start = o.NotBefore
	}
	if start.Before(now) {
		return now
	}
	return start
}
