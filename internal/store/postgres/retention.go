package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// trimmedAtOnce bounds how much one commit of Trim removes, so that the user's turn
// is not held for long.
const trimmedAtOnce = 1000

// Users implements store.Retention.
func (s *Store) Users(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]string, error) {
		return rows(ctx, q, pgx.RowTo[string], `
			SELECT DISTINCT user_id FROM posthaste.kept ORDER BY user_id`)
	})
}

// Trim implements store.Retention.
func (s *Store) Trim(ctx context.Context, user string, h store.Horizon) (trimmed store.Trimmed, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return trimmed, err
	}
	defer done(&err)
	if !h.DeadLetters.IsZero() {
		if trimmed.DeadLetters, err = s.trimDeadLetters(ctx, user, h.DeadLetters); err != nil {
			return trimmed, err
		}
	}
	if !h.Runs.IsZero() {
		if trimmed.Runs, err = s.trimRuns(ctx, user, h.Runs); err != nil {
			return trimmed, err
		}
	}
	if !h.Log.IsZero() {
		trimmed.Days, err = s.trimLog(ctx, user, h.Log.UTC().Truncate(day))
	}
	return trimmed, err
}

// inSteps repeats a step in the user's turn until one removes less than trimmedAtOnce. It
// returns how much was removed.
func (s *Store) inSteps(ctx context.Context, user string, step func(*tx) (int, error)) (removed int, err error) {
	for n := trimmedAtOnce; n == trimmedAtOnce; {
		err := s.change(ctx, time.Time{}, []string{user}, wants{}, func(tx *tx) (err error) {
			n, err = step(tx)
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

// trimDeadLetters removes entries of both DLQs.
func (s *Store) trimDeadLetters(ctx context.Context, user string, before time.Time) (removed int, err error) {
	for kind, table := range map[int16]string{
		keptDeadLetters: "posthaste.dead_letters", keptFailedRuns: "posthaste.run_dead_letters",
	} {
		n, err := s.inSteps(ctx, user, func(tx *tx) (int, error) {
			gone, err := rows(tx.ctx, tx, scanRemoved, `
				DELETE FROM `+table+` WHERE user_id = $1 AND id IN (
					SELECT id FROM `+table+` WHERE user_id = $1 AND id < $2 ORDER BY id LIMIT $3)
				RETURNING id, octet_length(record)`, user, int64(posthaste.FirstPosition(before)), trimmedAtOnce)
			tx.countRemoved(keptOf{user: user, kind: kind}, gone)
			tx.unindex(user, kind, placesOf(gone))
			return len(gone), err
		})
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// trimRuns removes runs that have ended and are in no DLQ, with all that is theirs.
func (s *Store) trimRuns(ctx context.Context, user string, before time.Time) (int, error) {
	return s.inSteps(ctx, user, func(tx *tx) (int, error) {
		gone, err := rows(tx.ctx, tx, scanRemoved, `
			DELETE FROM posthaste.runs WHERE user_id = $1 AND position IN (
				SELECT position FROM posthaste.runs r WHERE user_id = $1 AND completed < $2
					AND NOT EXISTS (SELECT FROM posthaste.run_dead_letters d WHERE d.user_id = $1 AND d.run = r.position)
				ORDER BY completed LIMIT $3)
			RETURNING position, octet_length(record)`, user, before.UnixMilli(), trimmedAtOnce)
		if err != nil {
			return 0, err
		}
		of := keptOf{user: user, kind: keptRuns}
		tx.countRemoved(of, gone)
		tx.unindex(user, keptRuns, placesOf(gone))
		return len(gone), tx.removeListsOf(of, gone)
	})
}

// removeListsOf removes what belonged to runs.
func (tx *tx) removeListsOf(of keptOf, runs []removed) error {
	positions := placesOf(runs)
	entries, err := rows(tx.ctx, tx, scanRemoved, `
		DELETE FROM posthaste.run_entries WHERE user_id = $1 AND run = ANY($2)
		RETURNING run, octet_length(record)`, of.user, positions)
	for _, e := range entries {
		tx.count(of, 0, -e.bytes)
	}
	for _, table := range []string{"run_memory", "run_events", "waiters"} {
		tx.exec(`DELETE FROM posthaste.`+table+` WHERE user_id = $1 AND run = ANY($2)`, of.user, positions)
	}
	return err
}
