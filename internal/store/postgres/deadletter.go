package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// bury adds a dead letter.
func (tx *tx) bury(d *posthaste.DeadLetter) {
	data := record.AppendDeadLetter(nil, d)
	tx.exec(`INSERT INTO posthaste.dead_letters (user_id, id, record) VALUES ($1, $2, $3)`, d.Message.User, int64(d.ID), data)
	tx.count(keptOf{user: d.Message.User, kind: keptDeadLetters}, 1, len(data))
}

// unbury removes dead letters and returns those that were there.
func (tx *tx) unbury(user string, ids []posthaste.DeadLetterID) (removed []posthaste.DeadLetterID, err error) {
	gone, err := rows(tx.ctx, tx, scanRemoved, `
		DELETE FROM posthaste.dead_letters WHERE user_id = $1 AND id = ANY($2) RETURNING id, octet_length(record)`,
		user, letterIDs(ids))
	for _, r := range gone {
		removed = append(removed, posthaste.DeadLetterID(r.at))
	}
	tx.countRemoved(keptOf{user: user, kind: keptDeadLetters}, gone)
	return removed, err
}

func letterIDs(ids []posthaste.DeadLetterID) []int64 {
	all := make([]int64, len(ids))
	for i, id := range ids {
		all[i] = int64(id)
	}
	return all
}

// scanDeadLetter reads the dead letters of a user: id and record.
func scanDeadLetter(user string) func(pgx.CollectableRow) (*posthaste.DeadLetter, error) {
	return func(r pgx.CollectableRow) (*posthaste.DeadLetter, error) {
		var id int64
		var data []byte
		if err := r.Scan(&id, &data); err != nil {
			return nil, err
		}
		return record.DecodeDeadLetter(posthaste.DeadLetterID(id), user, data)
	}
}

func readDeadLetter(ctx context.Context, q querier, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return row(ctx, q, scanDeadLetter(user), `
		SELECT id, record FROM posthaste.dead_letters WHERE user_id = $1 AND id = $2`, user, int64(id))
}

// DeadLetter implements store.DeadLetters.
func (s *Store) DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.DeadLetter, error) {
		return readDeadLetter(ctx, q, user, id)
	})
}

// DeadLetters implements store.DeadLetters.
func (s *Store) DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (page store.DeadLetterPage, err error) {
	found, err := read(ctx, s, func(ctx context.Context, q querier) ([]*posthaste.DeadLetter, error) {
		return rows(ctx, q, scanDeadLetter(user), `
			SELECT id, record FROM posthaste.dead_letters
			WHERE user_id = $1 AND id BETWEEN $2 AND $3 AND (cardinality($4::bigint[]) = 0 OR id = ANY($4))
			ORDER BY id `+direction(query.OldestFirst)+` LIMIT $5`,
			user, int64(query.Low), int64(query.High), letterIDs(query.Filter.IDs), maxScan)
	})
	for _, d := range found {
		if !query.Filter.Matches(d) {
			continue
		}
		if len(page.DeadLetters) == query.Limit {
			page.More, page.Next = true, posthaste.Position(d.ID)
			return page, nil
		}
		page.DeadLetters = append(page.DeadLetters, d)
	}
	if len(found) == maxScan {
		page.More, page.Next = true, beyond(posthaste.Position(found[maxScan-1].ID), query.OldestFirst)
	}
	return page, err
}

// DeleteDeadLetters implements store.DeadLetters.
func (s *Store) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID,
	step *store.Step,
) (deleted []posthaste.DeadLetterID, err error) {
	err = s.call(ctx, time.Time{}, []string{user}, func(tx *tx) (err error) {
		if deleted, err = tx.unbury(user, ids); err != nil {
			return err
		}
		return tx.advance(user, step, len(deleted), nil)
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

// RetryDeadLetters implements store.DeadLetters.
func (s *Store) RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step *store.Step,
) (results []store.Retried, err error) {
	err = s.call(ctx, now, []string{user}, func(tx *tx) error {
		var failures []posthaste.ActionFailure
		for _, id := range ids {
			result, err := tx.retry(user, id, remake)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			results = append(results, result)
			if result.Err != nil {
				failures = append(failures, posthaste.ActionFailure{ID: id.String(), Error: result.Err.Error()})
			}
		}
		return tx.advance(user, step, len(results)-len(failures), failures)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// retry accepts a new message for a dead letter, unless none can be made of it.
func (tx *tx) retry(user string, id posthaste.DeadLetterID, remake func(*posthaste.DeadLetter) (*posthaste.Message, error)) (store.Retried, error) {
	d, err := readDeadLetter(tx.ctx, tx, user, id)
	if err != nil {
		return store.Retried{}, err
	}
	result := store.Retried{ID: id}
	if result.Message, result.Err = remake(d); result.Err != nil {
		return store.Retried{ID: id, Err: result.Err}, nil
	}
	if _, err := tx.unbury(user, []posthaste.DeadLetterID{id}); err != nil {
		return store.Retried{}, err
	}
	return result, tx.accept([]*posthaste.Message{result.Message})
}
