// Package index says what events, dead letters, runs and waiters are found by, and what of it a
// filter asks for. Writers and readers of an index both ask here, so they agree.
//
// Something that matches a filter has a term of each list that the filter makes. The opposite does
// not hold: values are hashed, and not every field of a filter is indexed. So what was found is
// compared with the filter.
//
// It also has the format of the blocks that the log and its index are stored in.
package index

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"posthaste"
	"posthaste/internal/store"
)

// The fields. They are stored, and below 128.
const (
	fieldMessage     = 'm'
	fieldState       = 's'
	fieldURL         = 'u'
	fieldGroup       = 'g'
	fieldSchedule    = 'c'
	fieldQueue       = 'q'
	fieldLabel       = 'l'
	fieldHost        = 'h' // of the URL, with its port and without
	fieldPath        = 'p' // of the URL
	fieldCallerIP    = 'i'
	fieldFlowKey     = 'f'
	fieldStatus      = 'r' // of the last response, or that of an attempt; 0 without one
	fieldClass       = 'R' // of an attempt: the first digit of its status
	fieldMethod      = 'v'
	fieldWorkflow    = 'w' // of what belongs to any run
	fieldRun         = 'n' // id
	fieldWorkflowURL = 'W'
	fieldCallback    = 'b' // state of a failure callback
	fieldCreated     = 'a' // when a run was created
	fieldAny         = '*'
)

// Any stands for all events of a user. No event has it.
var Any = store.Term{Field: fieldAny}

var workflow = store.Term{Field: fieldWorkflow}

// hashMask is the bits of a hash, so that a term fits eight bytes.
const hashMask = 1<<56 - 1

func text(field byte, value string) store.Term {
	return store.Term{Field: field, Hash: xxhash.Sum64String(value) & hashMask}
}

func number[T ~int | ~int64](field byte, value T) store.Term {
	return store.Term{Field: field, Hash: uint64(value) & hashMask}
}

// belowTime is how many bits of the term of a message are not its creation time: of an id, 44 bits
// are time until the year 2527.
const belowTime = 12

// Message is the term of a message's events. It begins with the creation time, so that the terms of
// messages made together lie together.
func Message(id posthaste.MessageID) store.Term {
	return store.Term{Field: fieldMessage, Hash: binary.BigEndian.Uint64(id[:8]) >> 4 & hashMask}
}

// LeastMessage and MostMessage are the bounds of the ids of messages that have the same term as one.
func LeastMessage(id posthaste.MessageID) posthaste.MessageID { return withoutTerm(id, 0) }

// MostMessage is the upper bound.
func MostMessage(id posthaste.MessageID) posthaste.MessageID { return withoutTerm(id, 0xff) }

// withoutTerm returns an id with other bits where the term says nothing.
func withoutTerm(id posthaste.MessageID, bits byte) posthaste.MessageID {
	const half = 7 // the byte of which the term has the upper half
	id[half] = id[half]&0xf0 | bits&0x0f
	for i := half + 1; i < len(id); i++ {
		id[i] = bits
	}
	return id
}

// CreatedAt returns when the message of a term was created; ok is false for any other term.
func CreatedAt(t store.Term) (at time.Time, ok bool) {
	return time.UnixMilli(int64(t.Hash >> belowTime)), t.Field == fieldMessage
}

// AppendEvent appends what an event of a message is found by.
func AppendEvent(terms []store.Term, m *posthaste.Message, e *posthaste.Event) []store.Term {
	return AppendOwn(AppendMessage(terms, m), e)
}

// AppendOwn appends what an event is found by beside its message.
func AppendOwn(terms []store.Term, e *posthaste.Event) []store.Term {
	terms = append(terms, State(e.State))
	if e.State.OfAttempt() {
		terms = append(terms, number(fieldStatus, e.Attempt.Status), number(fieldClass, e.Attempt.Status/100))
	}
	return terms
}

// EventTerms is AppendEvent for one event after the other: those of a message share their work. The
// zero value is ready.
type EventTerms struct {
	message *posthaste.Message
	shared  int // terms of the message, which come first
	terms   []store.Term
}

// Of returns what an event is found by, until the next call.
func (e *EventTerms) Of(m *posthaste.Message, event *posthaste.Event) []store.Term {
	if m != e.message {
		e.message, e.terms = m, AppendMessage(e.terms[:0], m)
		e.shared = len(e.terms)
	}
	e.terms = AppendOwn(e.terms[:e.shared], event)
	return e.terms
}

// Forget lets the message go.
func (e *EventTerms) Forget() { e.message = nil }

// AppendMessage appends what all events of a message are found by.
func AppendMessage(terms []store.Term, m *posthaste.Message) []store.Term {
	host, path := posthaste.HostAndPath(m.URL)
	terms = append(appendIdentity(terms, m), text(fieldHost, host), text(fieldPath, path), text(fieldMethod, m.Verb()))
	if bare := posthaste.HostWithoutPort(host); bare != host {
		terms = append(terms, text(fieldHost, bare))
	}
	if m.Run != nil {
		terms = append(terms, workflow, text(fieldRun, m.Run.ID), text(fieldWorkflowURL, m.Run.URL))
	}
	return terms
}

// State is the term of events in a state.
func State(state posthaste.State) store.Term { return text(fieldState, string(state)) }

// appendIdentity appends what a message is found by in the log and in the DLQ.
func appendIdentity(terms []store.Term, m *posthaste.Message) []store.Term {
	terms = append(terms, Message(m.ID), text(fieldURL, m.URL))
	terms = appendOptional(terms, fieldGroup, m.URLGroup)
	terms = appendOptional(terms, fieldSchedule, m.ScheduleID)
	terms = appendOptional(terms, fieldQueue, m.Queue)
	return appendSettings(terms, &m.Settings, m.CallerIP)
}

// appendSettings appends what messages and runs have in common.
func appendSettings(terms []store.Term, s *posthaste.Settings, callerIP string) []store.Term {
	terms = appendOptional(terms, fieldCallerIP, callerIP)
	terms = appendOptional(terms, fieldFlowKey, s.FlowControl.Key)
	for _, label := range s.Labels {
		terms = append(terms, text(fieldLabel, label))
	}
	return terms
}

// appendOptional appends the term of a value, if there is one.
func appendOptional(terms []store.Term, field byte, value string) []store.Term {
	if value == "" {
		return terms
	}
	return append(terms, text(field, value))
}

// DeadLetter lists what a dead letter is found by.
func DeadLetter(d *posthaste.DeadLetter) []store.Term {
	status := 0
	if d.Response != nil {
		status = d.Response.Status
	}
	return append(appendIdentity(nil, d.Message), number(fieldStatus, status))
}

// Run lists what a run is found by.
func Run(run *posthaste.Run) []store.Term {
	return append(appendRun(nil, run), RunState(run.State))
}

// FailedRun lists what a run is found by in the DLQ.
func FailedRun(run *posthaste.Run) []store.Term {
	return append(appendRun(nil, run),
		created(run.CreatedAt), number(fieldStatus, run.FailedStatus), Callback(run.CallbackState()))
}

func appendRun(terms []store.Term, run *posthaste.Run) []store.Term {
	return appendSettings(append(terms, RunID(run.ID), text(fieldURL, run.URL)), &run.Settings, run.CallerIP)
}

// RunID is the term of runs with an id.
func RunID(id string) store.Term { return text(fieldRun, id) }

// RunState is the term of runs in a state.
func RunState(state posthaste.RunState) store.Term { return text(fieldState, string(state)) }

// Callback is the term of failed runs with a state of their failure callback.
func Callback(state posthaste.CallbackState) store.Term { return text(fieldCallback, string(state)) }

func created(at time.Time) store.Term { return number(fieldCreated, at.UnixMilli()) }

// lists are what a filter asks for: a term of each list.
type lists [][]store.Term

// add adds the values of a field, if there are any.
func add[T any](l lists, values []T, term func(T) store.Term) lists {
	if len(values) == 0 {
		return l
	}
	terms := make([]store.Term, len(values))
	for i, value := range values {
		terms[i] = term(value)
	}
	return append(l, terms)
}

func (l lists) texts(field byte, values []string) lists {
	return add(l, values, func(value string) store.Term { return text(field, value) })
}

// optional adds values of a field that has no term when it is empty.
func (l lists) optional(field byte, values []string) lists {
	if slices.Contains(values, "") {
		return l
	}
	return l.texts(field, values)
}

func (l lists) statuses(values []int) lists {
	return add(l, values, func(status int) store.Term { return number(fieldStatus, status) })
}

// attempts adds the statuses of attempts, of which all of a class are asked for as one.
func (l lists) attempts(values []int) lists {
	if len(values) == 0 {
		return l
	}
	var terms []store.Term
	var of [10][]int
	for _, status := range values {
		class := min(status/100, 9)
		of[class] = append(of[class], status)
	}
	for class, statuses := range of {
		if len(statuses) >= 100 { // they are distinct
			terms = append(terms, number(fieldClass, class))
			continue
		}
		for _, status := range statuses {
			terms = append(terms, number(fieldStatus, status))
		}
	}
	return append(l, terms)
}

// message adds what messages are asked for in the log and in the DLQ.
func (l lists) message(f *posthaste.Filter) lists {
	return add(l, f.MessageIDs, Message).
		texts(fieldURL, f.URLs).
		optional(fieldGroup, f.URLGroups).
		optional(fieldSchedule, f.ScheduleIDs).
		optional(fieldQueue, f.Queues).
		optional(fieldCallerIP, f.CallerIPs).
		optional(fieldFlowKey, f.FlowKeys).
		texts(fieldLabel, f.Labels)
}

// Events returns what a filter of events asks for.
func Events(f *posthaste.Filter) [][]store.Term {
	l := lists{}.message(f).texts(fieldPath, f.Paths).texts(fieldMethod, f.Methods).attempts(f.Statuses)
	l = add(l, f.States, State)
	l = add(l, f.Hosts, func(host string) store.Term { return text(fieldHost, strings.ToLower(host)) })
	if f.OfRuns {
		l = append(l, []store.Term{workflow}).texts(fieldRun, f.RunIDs).texts(fieldWorkflowURL, f.WorkflowURLs)
	}
	return l
}

// DeadLetters returns what a filter of dead letters asks for, apart from their ids.
func DeadLetters(f *posthaste.Filter) [][]store.Term {
	return lists{}.message(f).statuses(f.Statuses)
}

// Runs returns what a query for runs asks for. whole reports whether that is all of its filter.
func Runs(query *store.RunQuery) (terms [][]store.Term, whole bool) {
	f := &query.Filter
	l := lists{}.
		texts(fieldRun, f.RunIDs).
		texts(fieldURL, f.URLs).
		texts(fieldLabel, f.Labels).
		optional(fieldCallerIP, f.CallerIPs).
		optional(fieldFlowKey, f.FlowKeys)
	whole = len(f.Positions)+len(f.DeadLetterIDs)+len(f.RunIDPrefixes)+len(f.URLPrefixes)+len(f.Hosts)+len(f.Paths) == 0 &&
		!slices.Contains(f.CallerIPs, "") && !slices.Contains(f.FlowKeys, "")
	if !query.Failed {
		l = add(l, f.RunStates, RunState)
		return l, whole && len(f.CreatedAts)+len(f.CallbackStates)+len(f.Statuses) == 0
	}
	l = add(l, f.CreatedAts, created).statuses(f.Statuses)
	return add(l, f.CallbackStates, Callback), whole && len(f.RunStates) == 0
}
