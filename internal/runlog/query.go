package runlog

import (
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// Query selects runs, or changes of runs and steps. The log applies itself what queries of the
// store do not have.
type Query struct {
	Filter     posthaste.Filter   // Low and High have its dates
	Named      []posthaste.RunRef // nil: any; otherwise the filter has their parts
	StepStates []posthaste.StepState

	Low, High   posthaste.Position // both inclusive
	OldestFirst bool
	Limit       int
	BodyLimit   int // bytes of a body to show
}

// Runs returns the query for runs. If states of steps are given, runs of all states are selected.
func (q *Query) Runs() store.RunQuery {
	query := store.RunsMatching(&q.Filter)
	query.Filter.Hosts, query.Filter.Paths = nil, nil
	query.Low, query.High, query.OldestFirst, query.Limit = q.Low, q.High, q.OldestFirst, q.Limit
	if len(q.StepStates) > 0 {
		query.Filter.RunStates = nil
	}
	if created := q.Filter.CreatedAts; len(created) > 0 { // a run's position has its creation time
		query.Low = max(query.Low, posthaste.FirstPosition(slices.MinFunc(created, time.Time.Compare)))
		query.High = min(query.High, posthaste.LastPosition(slices.MaxFunc(created, time.Time.Compare)))
	}
	return query
}

// Events returns the query for events, whose States the caller sets. Labels, callers and
// flow-control keys are those of messages.
func (q *Query) Events() store.EventQuery {
	query := store.EventQuery{
		Filter: posthaste.Filter{
			OfRuns:       true,
			RunIDs:       q.Filter.RunIDs,
			WorkflowURLs: q.Filter.URLs,
			MessageIDs:   q.Filter.MessageIDs,
			Labels:       q.Filter.Labels,
			CallerIPs:    q.Filter.CallerIPs,
			FlowKeys:     q.Filter.FlowKeys,
		},
		Low:         q.Low,
		High:        q.High,
		OldestFirst: q.OldestFirst,
		Limit:       q.Limit,
	}
	if created := q.Filter.CreatedAts; len(created) > 0 { // a run has no earlier events
		query.Low = max(query.Low, posthaste.FirstPosition(slices.MinFunc(created, time.Time.Compare)))
	}
	return query
}

// MatchesRun reports whether a run passes the filters that the queries do not have.
func (q *Query) MatchesRun(run posthaste.RunRef) bool {
	isRun := func(named posthaste.RunRef) bool { return named.ID == run.ID && named.CreatedAt.Equal(run.CreatedAt) }
	place := posthaste.Filter{Hosts: q.Filter.Hosts, Paths: q.Filter.Paths, CreatedAts: q.Filter.CreatedAts}
	return (len(q.Named) == 0 || slices.ContainsFunc(q.Named, isRun)) && place.MatchesRun(&posthaste.Run{RunRef: run})
}
