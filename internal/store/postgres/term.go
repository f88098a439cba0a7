package postgres

import (
	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
)

// termColumn returns a term as it is stored: its field, and the 56 bits of its hash.
func termColumn(t store.Term) int64 { return int64(uint64(t.Field)<<56 | t.Hash) }

func termColumns(terms []store.Term) []int64 { return column(terms, termColumn) }

// termsBefore is the terms of a run as it was read.
type termsBefore struct {
	terms   []store.Term
	letter  posthaste.DeadLetterID // 0: it was not in the DLQ
	failure []store.Term
}

func newTermsBefore(run *posthaste.Run) *termsBefore {
	return &termsBefore{index.Run(run), run.DeadLetterID, index.FailedRun(run)}
}

// indexRun updates the terms of a run. was is nil for a new one.
func (r *runTx) indexRun(run *posthaste.Run, was *termsBefore) {
	if was == nil {
		was = &termsBefore{}
	}
	r.reindex(r.user, usageRuns, int64(run.Position), was.terms, index.Run(run))
	if was.letter != 0 && was.letter == run.DeadLetterID && !r.removed[posthaste.Position(was.letter)] {
		r.reindexFailed(int64(was.letter), was.failure, index.FailedRun(run))
	}
}

// reindexFailed updates the terms of an entry in the DLQ of runs, if it exists: a run keeps
// the id of an entry that was removed.
func (r *runTx) reindexFailed(id int64, before, after []store.Term) {
	was, is := termColumns(before), termColumns(after)
	if gone := without(was, is); len(gone) > 0 {
		r.exec(deleteTerms, r.user, usageFailedRuns, id, gone)
	}
	if fresh := without(is, was); len(fresh) > 0 {
		r.exec(`
			INSERT INTO posthaste.terms (user_id, kind, at, term)
			SELECT user_id, $2, id, unnest($4::bigint[]) FROM posthaste.run_dead_letters WHERE user_id = $1 AND id = $3
			ON CONFLICT DO NOTHING`, r.user, usageFailedRuns, id, fresh)
	}
}
