package index

import (
	"slices"
	"strings"

	"posthaste/internal/store"
)

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

// message adds what messages are asked for in the log and in the DLQ.
func (l lists) message(f *store.EventFilter) lists {
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
func Events(f *store.EventFilter) [][]store.Term {
	l := lists{}.message(f).texts(fieldPath, f.Paths)
	l = add(l, f.States, State)
	l = add(l, f.Hosts, func(host string) store.Term { return text(fieldHost, strings.ToLower(host)) })
	if f.Runs {
		l = append(l, []store.Term{workflow}).texts(fieldRun, f.RunIDs).texts(fieldWorkflowURL, f.WorkflowURLs)
	}
	return l
}

// DeadLetters returns what a filter of dead letters asks for, apart from their ids.
func DeadLetters(f *store.DeadLetterFilter) [][]store.Term {
	return lists{}.message(&store.EventFilter{
		MessageIDs: f.MessageIDs, URLs: f.URLs, URLGroups: f.URLGroups, ScheduleIDs: f.ScheduleIDs,
		Queues: f.Queues, CallerIPs: f.CallerIPs, FlowKeys: f.FlowKeys, Labels: f.Labels,
	}).statuses(f.Statuses)
}

// Runs returns what a query for runs asks for. whole reports whether that is all of its filter.
func Runs(query *store.RunQuery) (terms [][]store.Term, whole bool) {
	f := &query.Filter
	l := lists{}.
		texts(fieldRun, f.IDs).
		texts(fieldURL, f.URLs).
		texts(fieldLabel, f.Labels).
		optional(fieldCallerIP, f.CallerIPs).
		optional(fieldFlowKey, f.FlowKeys)
	whole = len(f.Positions)+len(f.DeadLetterIDs)+len(f.IDPrefixes)+len(f.URLPrefixes)+len(f.Hosts)+len(f.Paths) == 0 &&
		!slices.Contains(f.CallerIPs, "") && !slices.Contains(f.FlowKeys, "")
	if !query.Failed {
		l = add(l, f.States, RunState)
		return l, whole && len(f.CreatedAts)+len(f.CallbackStates)+len(f.Statuses) == 0
	}
	l = add(l, f.CreatedAts, created).statuses(f.Statuses)
	return add(l, f.CallbackStates, Callback), whole && len(f.States) == 0
}
