package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// trimmedAtOnce bounds what one commit of Trim removes.
const trimmedAtOnce = 1000

func (s *Store) Users(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]string, error) {
		return rows(ctx, q, pgx.RowTo[string], `
			SELECT user_id FROM posthaste.kept
			UNION SELECT user_id FROM posthaste.users u
				WHERE EXISTS (SELECT FROM posthaste.documents d WHERE d.user_id = u.user_id AND d.kind = $1)
			ORDER BY user_id`, flowKeys.kind)
	})
}

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
		if trimmed.Days, err = s.trimLog(ctx, user, h.Log.UTC().Truncate(day)); err != nil {
			return trimmed, err
		}
	}
	if !h.FlowKeys.IsZero() {
		trimmed.FlowKeys, err = s.trimFlowKeys(ctx, user, h.FlowKeys)
	}
	return trimmed, err
}

// inSteps repeats a step, each in its own commit, until one removes less than trimmedAtOnce.
// It returns the number removed.
func (s *Store) inSteps(ctx context.Context, user string, step func(*tx) (int, error)) (removed int, err error) {
	for n := trimmedAtOnce; n == trimmedAtOnce; {
		err := s.change(ctx, time.Time{}, []string{user}, prefetch{}, func(tx *tx) (err error) {
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

func (s *Store) trimDeadLetters(ctx context.Context, user string, before time.Time) (removed int, err error) {
	for kind, table := range map[int16]string{
		usageDeadLetters: "posthaste.dead_letters", usageFailedRuns: "posthaste.run_dead_letters",
	} {
		n, err := s.inSteps(ctx, user, func(tx *tx) (int, error) {
			gone, err := rows(tx.ctx, tx, scanRemoved, `
				DELETE FROM `+table+` WHERE user_id = $1 AND id IN (
					SELECT id FROM `+table+` WHERE user_id = $1 AND id < $2 ORDER BY id LIMIT $3)
				RETURNING id, octet_length(record)`, user, int64(posthaste.FirstPosition(before)), trimmedAtOnce)
			tx.countRemoved(usageKey{user: user, kind: kind}, gone)
			tx.unindex(user, kind, placesOf(gone))
			return len(gone), err
		})
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// trimRuns removes ended runs that are not in the DLQ, with all that belongs to them.
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
		of := usageKey{user: user, kind: usageRuns}
		tx.countRemoved(of, gone)
		tx.unindex(user, usageRuns, placesOf(gone))
		return len(gone), tx.removeListsOf(of, gone)
	})
}

// trimFlowKeys removes idle keys without messages. Unreadable keys stay.
func (s *Store) trimFlowKeys(ctx context.Context, user string, since time.Time) (removed int, err error) {
	for after, more := []byte{}, true; more; {
		some, err := rows(ctx, s.pool, pgx.RowToStructByPos[storedKey], `
			SELECT name, record FROM posthaste.documents WHERE user_id = $1 AND kind = $2 AND name > $3
			ORDER BY name LIMIT $4`, user, flowKeys.kind, after, trimmedAtOnce)
		if err != nil {
			return removed, err
		}
		var idle []string
		for _, k := range some {
			after = k.Name
			if key, err := flowKeys.read(user, k.Name, k.Record); err == nil && key.Idle(since) {
				idle = append(idle, key.Key)
			}
		}
		n, err := s.removeIdleKeys(ctx, user, idle, since)
		if removed += n; err != nil {
			return removed, err
		}
		more = len(some) == trimmedAtOnce
	}
	return removed, nil
}

type storedKey struct{ Name, Record []byte }

// removeIdleKeys removes the keys that are still idle and without messages.
func (s *Store) removeIdleKeys(ctx context.Context, user string, names []string, since time.Time) (removed int, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	var w prefetch
	for _, key := range names {
		w.keys = append(w.keys, name{user, key})
	}
	err = s.change(ctx, time.Time{}, []string{user}, w, func(tx *tx) error {
		removed = 0
		under, err := tx.messagesUnder(user, names)
		if err != nil {
			return err
		}
		for _, name := range names {
			key, err := tx.flowKey(user, name)
			if err == nil && key.Idle(since) && under[name] == 0 {
				tx.removeFlowKey(user, name)
				removed++
			}
		}
		return nil
	})
	return removed, err
}

// removeListsOf removes what belongs to runs.
func (tx *tx) removeListsOf(of usageKey, runs []removed) error {
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
