package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// AddToDLQ implements store.RunDLQ.
func (r *runTx) AddToDLQ(run *posthaste.Run, d *posthaste.DeadLetter) {
	data := record.AppendDeadLetter(nil, d)
	r.stage(func() error {
		r.exec(`INSERT INTO posthaste.run_dead_letters (user_id, id, run, record) VALUES ($1, $2, $3, $4)`,
			r.user, int64(d.ID), int64(run.Position), data)
		r.index(r.user, usageFailedRuns, int64(d.ID), failureTerms(run))
		r.count(usageKey{user: r.user, kind: usageFailedRuns}, 1, len(data))
		return nil
	})
}

// DLQEntry implements store.RunDLQ.
func (r *runTx) DLQEntry(id posthaste.DeadLetterID) (*posthaste.DeadLetter, *posthaste.Run, error) {
	if r.gone[posthaste.Position(id)] {
		return nil, nil, store.ErrNotFound
	}
	found, err := row(r.ctx, r, func(cr pgx.CollectableRow) (foundRun, error) { return scanFoundRun(cr, r.user) }, `
		SELECT d.id, d.record, r.record, r.progress
		FROM posthaste.run_dead_letters d JOIN posthaste.runs r ON r.user_id = d.user_id AND r.position = d.run
		WHERE d.user_id = $1 AND d.id = $2`, r.user, int64(id))
	if err != nil {
		return nil, nil, err
	}
	return found.letter, r.hold(found.run), nil
}

// RemoveFromDLQ implements store.RunDLQ.
func (r *runTx) RemoveFromDLQ(run *posthaste.Run) {
	id := run.DeadLetterID
	r.gone[posthaste.Position(id)] = true
	r.stage(func() error {
		gone, err := rows(r.ctx, r, scanRemoved, `
			DELETE FROM posthaste.run_dead_letters WHERE user_id = $1 AND id = $2 RETURNING id, octet_length(record)`,
			r.user, int64(id))
		r.countRemoved(usageKey{user: r.user, kind: usageFailedRuns}, gone)
		r.unindex(r.user, usageFailedRuns, []int64{int64(id)})
		return err
	})
}
