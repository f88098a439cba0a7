package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste"
	"posthaste/internal/store/postgres/node"
	"posthaste/internal/store/postgres/schema"
)

const day = 24 * time.Hour

// logDays creates the tables of the log, one for each UTC day.
type logDays struct {
	mu   sync.Mutex
	made map[time.Time]bool
}

// ensure creates the tables of a time's day and the next; none for the zero time.
func (d *logDays) ensure(ctx context.Context, pool *pgxpool.Pool, now time.Time) error {
	if now.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	today := now.UTC().Truncate(day)
	for _, begins := range []time.Time{today, today.Add(day)} {
		if d.made[begins] {
			continue
		}
		if err := createDay(ctx, pool, begins); err != nil {
			return err
		}
		d.made[begins] = true
	}
	return nil
}

func (d *logDays) forget(begins time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.made, begins)
}

// forgetAll has all days checked again after an error for want of one: a failover may
// have lost the commit that created it.
func (d *logDays) forgetAll(failed error) {
	if said, ok := errors.AsType[*pgconn.PgError](failed); !ok || said.Code != node.NoPartition {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.made)
}

// createDay creates a day's partitions unless they exist. They are attached when
// complete, which blocks neither readers nor writers.
func createDay(ctx context.Context, pool *pgxpool.Pool, begins time.Time) error {
	table := dayTable(logParts[0], begins)
	return pgx.BeginTxFunc(ctx, pool, schema.Committed, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(schema.Lock)); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&exists); err != nil || exists {
			return err
		}
		for _, part := range logParts {
			_, err := tx.Exec(ctx, fmt.Sprintf(`
				CREATE TABLE %[1]s (LIKE %[2]s INCLUDING DEFAULTS);
				ALTER TABLE %[2]s ATTACH PARTITION %[1]s FOR VALUES FROM (%[3]d) TO (%[4]d)`,
				dayTable(part, begins), part, posthaste.FirstPosition(begins), posthaste.FirstPosition(begins.Add(day))))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

var logParts = []string{"posthaste.events", "posthaste.postings", "posthaste.responses"}

func dayTable(part string, begins time.Time) string {
	return part + "_" + begins.UTC().Format(dayFormat)
}

const dayFormat = "20060102"

// dropDays drops partitions without events of days before a time, and before the day of the
// last position, which may still be written to.
func (s *Store) dropDays(ctx context.Context, before time.Time) error {
	last, err := row(ctx, s.pool, pgx.RowTo[int64], `SELECT coalesce(max(position), 0) FROM posthaste.users`)
	if err != nil {
		return err
	}
	if writing := posthaste.Position(last).Time().UTC().Truncate(day); writing.Before(before) {
		before = writing
	}
	tables, err := rows(ctx, s.pool, pgx.RowTo[string], `
		SELECT relname FROM pg_class JOIN pg_inherits ON inhrelid = oid
		WHERE inhparent = 'posthaste.events'::regclass AND relname < $1`, "events_"+before.UTC().Format(dayFormat))
	if err != nil {
		return err
	}
	for _, table := range tables {
		begins, err := time.Parse(dayFormat, strings.TrimPrefix(table, "events_"))
		if err != nil {
			return err
		}
		if err := s.dropDay(ctx, begins); err != nil {
			return err
		}
	}
	return nil
}

// dropDay drops a day's partitions if there is no event. Readers and writers wait meanwhile,
// so it gives up after dropWait, until the next time.
func (s *Store) dropDay(ctx context.Context, begins time.Time) error {
	const dropWait = "100ms"
	err := pgx.BeginTxFunc(ctx, s.pool, schema.Committed, func(tx pgx.Tx) error {
		var empty bool
		err := tx.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM `+dayTable(logParts[0], begins)+`)`).Scan(&empty)
		if err != nil || !empty {
			return err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '`+dropWait+`'`); err != nil {
			return err
		}
		for _, part := range logParts {
			if _, err := tx.Exec(ctx, `DROP TABLE `+dayTable(part, begins)); err != nil {
				return err
			}
		}
		s.days.forget(begins)
		return nil
	})
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && (said.Code == lockNotAvailable || said.Code == undefinedTable) {
		return nil
	}
	return err
}

// lockNotAvailable is the database's code when a lock was waited for too long.
const lockNotAvailable = "55P03"

// undefinedTable is the database's code when another node dropped the table.
const undefinedTable = "42P01"
