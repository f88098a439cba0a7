package store

import "posthaste"

// EventsMatching returns the part of a filter that is about messages, without its dates.
func EventsMatching(f *posthaste.Filter) EventFilter {
	return EventFilter{
		MessageIDs:  f.MessageIDs,
		URLs:        f.URLs,
		URLGroups:   f.URLGroups,
		ScheduleIDs: f.ScheduleIDs,
		Queues:      f.Queues,
		Labels:      f.Labels,
		Hosts:       f.Hosts,
		Paths:       f.Paths,
		CallerIPs:   f.CallerIPs,
		FlowKeys:    f.FlowKeys,
	}
}

// LiveMatching returns the query for matching messages that have not ended.
func LiveMatching(f *posthaste.Filter) LiveQuery {
	query := LiveQuery{Filter: EventsMatching(f)}
	if f.From > 0 {
		query.CreatedFrom = f.From.Time()
	}
	if f.Until > 0 {
		query.CreatedUntil = f.Until.Time()
	}
	return query
}

// DeadLettersMatching returns the query for matching dead letters.
func DeadLettersMatching(f *posthaste.Filter) DeadLetterQuery {
	query := DeadLetterQuery{Filter: DeadLetterFilter{
		IDs:         f.DeadLetterIDs,
		MessageIDs:  f.MessageIDs,
		URLs:        f.URLs,
		URLGroups:   f.URLGroups,
		ScheduleIDs: f.ScheduleIDs,
		Queues:      f.Queues,
		Labels:      f.Labels,
		CallerIPs:   f.CallerIPs,
		FlowKeys:    f.FlowKeys,
		Statuses:    f.Statuses,
	}}
	query.Low, query.High = f.Positions()
	return query
}

// RunsMatching returns the query for matching runs.
func RunsMatching(f *posthaste.Filter) RunQuery {
	query := RunQuery{Filter: RunFilter{
		DeadLetterIDs:  f.DeadLetterIDs,
		IDPrefixes:     f.RunIDPrefixes,
		URLs:           f.URLs,
		URLPrefixes:    f.URLPrefixes,
		Hosts:          f.Hosts,
		Paths:          f.Paths,
		Labels:         f.Labels,
		CallerIPs:      f.CallerIPs,
		FlowKeys:       f.FlowKeys,
		CreatedAts:     f.CreatedAts,
		CallbackStates: f.CallbackStates,
		Statuses:       f.Statuses,
	}}
	query.Low, query.High = f.Positions()
	return query
}
