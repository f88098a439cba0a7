package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

func (tx *tx) addToDLQ(d *posthaste.DeadLetter) {
	data := record.AppendDeadLetter(nil, d)
	tx.exec(`INSERT INTO posthaste.dead_letters (user_id, id, record) VALUES ($1, $2, $3)`, d.Message.User, int64(d.ID), data)
	tx.index(d.Message.User, usageDeadLetters, int64(d.ID), index.DeadLetter(d))
	tx.addUsage(usageKey{user: d.Message.User, kind: usageDeadLetters}, 1, len(data))
}

// removeFromDLQ removes dead letters. It returns those that existed, in their order, and their
// size in bytes.
func (tx *tx) removeFromDLQ(user string, ids []posthaste.DeadLetterID) (removed []posthaste.DeadLetterID, size int, err error) {
	gone, err := rows(tx.ctx, tx, pgx.RowToStructByPos[removedRow], `
		DELETE FROM posthaste.dead_letters WHERE user_id = $1 AND id = ANY($2) RETURNING id, octet_length(record)`,
		user, int64s(ids))
	for _, r := range gone {
		removed, size = append(removed, posthaste.DeadLetterID(r.At)), size+int(r.Bytes)
	}
	slices.SortFunc(removed, func(a, b posthaste.DeadLetterID) int { return cmp.Compare(slices.Index(ids, a), slices.Index(ids, b)) })
	tx.countRemoved(usageKey{user: user, kind: usageDeadLetters}, gone)
	tx.unindex(user, usageDeadLetters, int64s(removed))
	return removed, size, err
}

// scanDeadLetter reads id and record.
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

// foundLetter is a dead letter that a query found.
type foundLetter struct {
	at      posthaste.Position
	fits    bool // within the byte limit; else the rest is unknown
	matches bool
	size    int
	letter  *posthaste.DeadLetter // nil if the query is bare
}

// scanFound reads id and record; the record is NULL beyond the page's byte limit.
func scanFound(user string, query *store.DeadLetterQuery) func(pgx.CollectableRow) (foundLetter, error) {
	return func(r pgx.CollectableRow) (f foundLetter, err error) {
		var data []byte
		if err := r.Scan(&f.at, &data); err != nil || data == nil {
			return f, err
		}
		d, err := record.DecodeDeadLetter(posthaste.DeadLetterID(f.at), user, data)
		if err != nil {
			return f, err
		}
		f.fits, f.matches, f.size = true, query.Filter.Matches(d), store.DeadLetterSize(d)
		if !query.Bare {
			f.letter = d
		}
		return f, nil
	}
}

func readDeadLetter(ctx context.Context, q querier, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return row(ctx, q, scanDeadLetter(user), `
		SELECT id, record FROM posthaste.dead_letters WHERE user_id = $1 AND id = $2`, user, int64(id))
}

func (s *Store) DeadLetter(ctx context.Context, user string, id posthaste.DeadLetterID) (*posthaste.DeadLetter, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.DeadLetter, error) {
		return readDeadLetter(ctx, q, user, id)
	})
}

func (s *Store) DeadLetters(ctx context.Context, user string, query store.DeadLetterQuery) (page store.DeadLetterPage, err error) {
	f := &finder{
		user: user, kind: usageDeadLetters, table: "posthaste.dead_letters", key: "id",
		low: query.Low, high: query.High, oldestFirst: query.OldestFirst, limit: query.Limit,
		terms: index.DeadLetters(&query.Filter), only: int64s(query.Filter.IDs), complete: len(query.Filter.IDs) == 0,
	}
	var found findings
	letters, err := read(ctx, s, func(ctx context.Context, q querier) (_ []foundLetter, err error) {
		if found, err = f.find(ctx, q); err != nil {
			return nil, err
		}
		order := direction(query.OldestFirst)
		return rows(ctx, q, scanFound(user, &query), `
			SELECT id, CASE WHEN total - size < $3 THEN record END FROM (
				SELECT id, record, octet_length(record) AS size, sum(octet_length(record)) OVER (ORDER BY id `+order+`) AS total
				FROM posthaste.dead_letters WHERE user_id = $1 AND id = ANY($2)) AS found
			ORDER BY id `+order, user, found.at, maxPageBytes)
	})
	budget := store.NewPageBudget(0)
	for _, f := range letters {
		if f.fits && !f.matches {
			continue
		}
		if !f.fits || len(page.DeadLetters)+len(page.IDs) == query.Limit || !budget.Take(f.size) {
			page.More, page.Next = true, f.at
			return page, nil
		}
		if query.Bare {
			page.IDs = append(page.IDs, posthaste.DeadLetterID(f.at))
		} else {
			page.DeadLetters = append(page.DeadLetters, f.letter)
		}
	}
	page.More, page.Next = found.more, found.next
	return page, err
}

func (s *Store) DeleteDeadLetters(ctx context.Context, user string, ids []posthaste.DeadLetterID,
	step store.Progress,
) (deleted []posthaste.DeadLetterID, err error) {
	err = s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		var left []posthaste.DeadLetterID
		if deleted, left, err = tx.deleteDeadLetters(user, ids); err != nil {
			return err
		}
		return tx.advance(user, step.Step(left), len(deleted), nil)
	})
	if err != nil {
		return nil, err
	}
	return deleted, nil
}

// deletedAtOnce is how many dead letters one statement deletes.
const deletedAtOnce = 20

// deleteDeadLetters deletes dead letters up to a commit's limit. It returns the deleted ones,
// and the ids that are left.
func (tx *tx) deleteDeadLetters(user string, ids []posthaste.DeadLetterID) (deleted, left []posthaste.DeadLetterID, err error) {
	batch := store.NewBatchLimit()
	for left = ids; len(left) > 0; {
		if len(deleted) > 0 && batch.Full() {
			return deleted, left, nil
		}
		some := left[:min(len(left), deletedAtOnce)]
		left = left[len(some):]
		removed, size, err := tx.removeFromDLQ(user, some)
		if err != nil {
			return nil, nil, err
		}
		batch.Take(size)
		deleted = append(deleted, removed...)
	}
	return deleted, nil, nil
}

func (s *Store) RetryDeadLetters(ctx context.Context, now time.Time, user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error), step store.Progress,
) (results []store.Retried, err error) {
	err = s.call(ctx, now, []string{user}, func(tx *tx) error {
		var left []posthaste.DeadLetterID
		if results, left, err = tx.retryDeadLetters(user, ids, remake); err != nil {
			return err
		}
		failures := store.FailuresOf(results)
		return tx.advance(user, step.Step(left), len(results)-len(failures), failures)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// retryDeadLetters retries dead letters up to a commit's limit. It returns the results, and
// the ids that are left.
func (tx *tx) retryDeadLetters(user string, ids []posthaste.DeadLetterID,
	remake func(*posthaste.DeadLetter) (*posthaste.Message, error),
) (results []store.Retried, left []posthaste.DeadLetterID, err error) {
	batch := store.NewBatchLimit()
	for i, id := range ids {
		if len(results) > 0 && batch.Full() {
			return results, ids[i:], nil
		}
		d, err := readDeadLetter(tx.ctx, tx, user, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		batch.Take(store.DeadLetterSize(d))
		result, err := tx.retry(d, remake)
		if err != nil {
			return nil, nil, err
		}
		results = append(results, result)
	}
	return results, nil, nil
}

// retry replaces a dead letter by a new message, unless remake fails.
func (tx *tx) retry(d *posthaste.DeadLetter, remake func(*posthaste.DeadLetter) (*posthaste.Message, error)) (store.Retried, error) {
	result := store.Retried{ID: d.ID}
	if result.Message, result.Err = remake(d); result.Err != nil {
		return store.Retried{ID: d.ID, Err: result.Err}, nil
	}
	if _, _, err := tx.removeFromDLQ(d.Message.User, []posthaste.DeadLetterID{d.ID}); err != nil {
		return store.Retried{}, err
	}
	return result, tx.accept([]*posthaste.Message{result.Message})
}
