package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Transact implements store.Runs. It calls change again if another change failed the shared
// transaction.
func (s *Store) Transact(ctx context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		runs := tx.runTx(user)
		if err := change(runs); err != nil {
			return err
		}
		return runs.write()
	})
}

func (s *Store) Run(ctx context.Context, user string, at posthaste.Position) (*posthaste.Run, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.Run, error) { return readRun(ctx, q, user, at) })
}

func (s *Store) LatestRun(ctx context.Context, user, id string) (*posthaste.Run, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.Run, error) { return readLatest(ctx, q, user, id) })
}

func (s *Store) RunEntries(ctx context.Context, user string, at posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]posthaste.RunEntry, error) {
		return readList(ctx, q, user, at, count)
	})
}

// scanRun reads record and progress.
func scanRun(user string) func(pgx.CollectableRow) (*posthaste.Run, error) {
	return func(r pgx.CollectableRow) (*posthaste.Run, error) {
		var envelope, progress []byte
		if err := r.Scan(&envelope, &progress); err != nil {
			return nil, err
		}
		return decodeRun(user, envelope, progress)
	}
}

func decodeRun(user string, envelope, progress []byte) (*posthaste.Run, error) {
	run, err := record.DecodeRun(user, envelope)
	if err != nil {
		return nil, err
	}
	run.RunProgress, err = record.DecodeRunProgress(progress)
	return run, err
}

func readRun(ctx context.Context, q querier, user string, at posthaste.Position) (*posthaste.Run, error) {
	return row(ctx, q, scanRun(user), `
		SELECT record, progress FROM posthaste.runs WHERE user_id = $1 AND position = $2`, user, int64(at))
}

// readLatest returns the newest run with an id.
func readLatest(ctx context.Context, q querier, user, id string) (*posthaste.Run, error) {
	return row(ctx, q, scanRun(user), `
		SELECT record, progress FROM posthaste.runs
		WHERE user_id = $1 AND id = $2 ORDER BY position DESC LIMIT 1`, user, shortHash(id))
}

// readList returns the first entries of a run's list, all for a negative count.
func readList(ctx context.Context, q querier, user string, at posthaste.Position, count int) ([]posthaste.RunEntry, error) {
	var limit *int
	if count >= 0 {
		limit = &count
	}
	return rows(ctx, q, func(r pgx.CollectableRow) (posthaste.RunEntry, error) {
		var index int
		var data []byte
		if err := r.Scan(&index, &data); err != nil {
			return posthaste.RunEntry{}, err
		}
		return record.DecodeRunEntry(index, data)
	}, `
		SELECT entry, record FROM posthaste.run_entries
		WHERE user_id = $1 AND run = $2 ORDER BY entry LIMIT $3`, user, int64(at), limit)
}

// foundRun is a run or a dead letter that a query found.
type foundRun struct {
	at     posthaste.Position
	run    *posthaste.Run        // nil beyond the byte limit
	letter *posthaste.DeadLetter // likewise
}

func (p *foundRun) size() int {
	n := store.RunSize(p.run)
	if p.letter != nil {
		n += store.DeadLetterSize(p.letter)
	}
	return n
}

func (s *Store) Runs(ctx context.Context, user string, query store.RunQuery) (page store.RunPage, err error) {
	f := newRunFinder(user, &query)
	var found findings
	places, err := read(ctx, s, func(ctx context.Context, q querier) (_ []foundRun, err error) {
		if found, err = f.find(ctx, q); err != nil {
			return nil, err
		}
		if query.Failed {
			return failedRuns(ctx, q, user, found.at, &query)
		}
		return allRuns(ctx, q, user, found.at, query.OldestFirst)
	})
	budget := store.NewPageBudget(0)
	for _, p := range places {
		if p.run != nil && !query.Filter.Matches(p.run) {
			continue
		}
		if p.run == nil || len(page.Runs) == query.Limit || !budget.Take(p.size()) {
			page.More, page.Next = true, p.at
			return page, nil
		}
		page.Runs = append(page.Runs, p.run)
		if p.letter != nil {
			page.DeadLetters = append(page.DeadLetters, p.letter)
		}
	}
	page.More, page.Next = found.more, found.next
	return page, err
}

func newRunFinder(user string, query *store.RunQuery) *finder {
	f := &finder{
		user: user, kind: usageRuns, table: "posthaste.runs", key: "position",
		low: query.Low, high: query.High, oldestFirst: query.OldestFirst, limit: query.Limit,
	}
	f.only = int64s(query.Filter.Positions)
	if query.Failed {
		f.kind, f.table, f.key = usageFailedRuns, "posthaste.run_dead_letters", "id"
		f.only = int64s(query.Filter.DeadLetterIDs)
	}
	f.terms, f.complete = index.Runs(query)
	return f
}

// allRuns reads runs up to a page's byte limit.
func allRuns(ctx context.Context, q querier, user string, at []int64, oldestFirst bool) ([]foundRun, error) {
	order := direction(oldestFirst)
	return rows(ctx, q, func(r pgx.CollectableRow) (foundRun, error) { return scanFoundRun(r, user) }, `
		SELECT position, NULL::bytea, CASE WHEN total - size < $3 THEN record END, progress FROM (
			SELECT position, record, progress, octet_length(record) + octet_length(progress) AS size,
				sum(octet_length(record) + octet_length(progress)) OVER (ORDER BY position `+order+`) AS total
			FROM posthaste.runs WHERE user_id = $1 AND position = ANY($2)) AS found
		ORDER BY position `+order, user, at, maxPageBytes)
}

// failedRuns reads entries of the DLQ of runs up to a page's byte limit.
func failedRuns(ctx context.Context, q querier, user string, at []int64, query *store.RunQuery) ([]foundRun, error) {
	letter, order := `d.record`, direction(query.OldestFirst)
	if query.Bare {
		letter = `NULL::bytea`
	}
	return rows(ctx, q, func(r pgx.CollectableRow) (foundRun, error) { return scanFoundRun(r, user) }, `
		SELECT id, CASE WHEN total - size < $3 THEN letter END, CASE WHEN total - size < $3 THEN record END, progress FROM (
			SELECT *, sum(size) OVER (ORDER BY id `+order+`) AS total FROM (
				SELECT d.id, `+letter+` AS letter, r.record, r.progress,
					coalesce(octet_length(`+letter+`), 0) + octet_length(r.record) + octet_length(r.progress) AS size
				FROM posthaste.run_dead_letters d JOIN posthaste.runs r ON r.user_id = d.user_id AND r.position = d.run
				WHERE d.user_id = $1 AND d.id = ANY($2)) AS sized) AS found
		ORDER BY id `+order, user, at, maxPageBytes)
}

// scanFoundRun reads position, dead letter, record and progress. The record is NULL beyond the
// byte limit.
func scanFoundRun(r pgx.CollectableRow, user string) (p foundRun, err error) {
	var letter, envelope, progress []byte
	if err := r.Scan(&p.at, &letter, &envelope, &progress); err != nil || envelope == nil {
		return p, err
	}
	if letter != nil {
		if p.letter, err = record.DecodeDeadLetter(posthaste.DeadLetterID(p.at), user, letter); err != nil {
			return foundRun{}, err
		}
	}
	p.run, err = decodeRun(user, envelope, progress)
	return p, err
}
