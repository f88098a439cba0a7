package postgres

import (
	"time"

	"posthaste"
	"posthaste/internal/store"
)

func runTerms(run *posthaste.Run) []term { return append(commonTerms(run), stateTerm(run.State)) }

// commonTerms are the terms of a run in the DLQ and elsewhere.
func commonTerms(run *posthaste.Run) []term {
	terms := []term{textTerm(fieldRun, run.ID), textTerm(fieldURL, run.URL)}
	if run.CallerIP != "" {
		terms = append(terms, textTerm(fieldCallerIP, run.CallerIP))
	}
	if run.FlowControl.Key != "" {
		terms = append(terms, textTerm(fieldFlowKey, run.FlowControl.Key))
	}
	for _, label := range run.Labels {
		terms = append(terms, textTerm(fieldLabel, label))
	}
	return terms
}

// failureTerms are the terms of an entry in the DLQ of runs.
func failureTerms(run *posthaste.Run) []term {
	return append(commonTerms(run),
		createdTerm(run.CreatedAt), numberTerm(fieldStatus, int64(run.FailedStatus)), callbackTerm(run.CallbackState()))
}

func stateTerm(state posthaste.RunState) term { return textTerm(fieldState, string(state)) }

func createdTerm(at time.Time) term { return numberTerm(fieldCreated, at.UnixMilli()) }

func callbackTerm(state posthaste.CallbackState) term { return textTerm(fieldCallback, string(state)) }

// runTermQuery translates a filter of runs, and reports whether the terms are all of it.
func runTermQuery(query *store.RunQuery) (q termQuery, whole bool) {
	f := &query.Filter
	q = q.texts(fieldRun, f.IDs).
		texts(fieldURL, f.URLs).
		texts(fieldLabel, f.Labels).
		texts(fieldCallerIP, f.CallerIPs).
		texts(fieldFlowKey, f.FlowKeys)
	whole = len(f.IDPrefixes)+len(f.URLPrefixes)+len(f.Hosts)+len(f.Paths) == 0
	if !query.Failed {
		q = addTerms(q, f.States, stateTerm)
		return q, whole && len(f.DeadLetterIDs)+len(f.CreatedAts)+len(f.CallbackStates)+len(f.Statuses) == 0
	}
	q = addTerms(q, f.CreatedAts, createdTerm)
	q = addTerms(q, f.CallbackStates, callbackTerm)
	return q.numbers(fieldStatus, f.Statuses), whole && len(f.Positions)+len(f.States) == 0
}

// indexedRun is the terms of a run as it was read.
type indexedRun struct {
	terms   []term
	letter  posthaste.DeadLetterID // 0: it was not in the DLQ
	failure []term
}

func newIndexedRun(run *posthaste.Run) *indexedRun {
	return &indexedRun{runTerms(run), run.DeadLetterID, failureTerms(run)}
}

// indexRun updates the terms of a run. was is nil for a new one.
func (r *runTx) indexRun(run *posthaste.Run, was *indexedRun) {
	if was == nil {
		was = &indexedRun{}
	}
	r.reindex(r.user, usageRuns, int64(run.Position), was.terms, runTerms(run))
	if was.letter != 0 && was.letter == run.DeadLetterID && !r.gone[posthaste.Position(was.letter)] {
		r.reindexFailed(int64(was.letter), was.failure, failureTerms(run))
	}
}

// reindexFailed updates the terms of an entry in the DLQ of runs, if it exists: a run keeps
// the id of an entry that was removed.
func (r *runTx) reindexFailed(id int64, before, after []term) {
	r.reindex(r.user, usageFailedRuns, id, without(before, after), nil)
	if fresh := without(after, before); len(fresh) > 0 {
		r.exec(`
			INSERT INTO posthaste.terms (user_id, kind, at, term)
			SELECT user_id, $2, id, unnest($4::bigint[]) FROM posthaste.run_dead_letters WHERE user_id = $1 AND id = $3
			ON CONFLICT DO NOTHING`, r.user, usageFailedRuns, id, int64s(fresh))
	}
}
