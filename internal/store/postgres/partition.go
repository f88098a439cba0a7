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
)

const day = 24 * time.Hour

// days makes the partitions of the log, one for each day of UTC.
type partitions struct {
	mu   sync.Mutex
	made map[time.Time]bool
}

// make sees to it that there are partitions for the day of a time and the next, if
// there is a time.
func (d *partitions) ensure(ctx context.Context, pool *pgxpool.Pool, now time.Time) error {
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
		if err := createPartitions(ctx, pool, begins); err != nil {
			return err
		}
		if d.made == nil {
			d.made = map[time.Time]bool{}
		}
		d.made[begins] = true
	}
	return nil
}

// forget lets the partitions of a day be made again.
func (d *partitions) forget(begins time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.made, begins)
}

// forgetAll lets the partitions of all days be made again, if a statement failed for want of
// one: they were made in commits that a failover has lost.
func (d *partitions) forgetAll(failed error) {
	if said, ok := errors.AsType[*pgconn.PgError](failed); !ok || said.Code != noPartition {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.made)
}

// noPartition is what the database says of a row for which there is no partition. It is the
// code of a check that fails, of which the schema has no other.
const noPartition = "23514"

// makeDay makes the partitions of a day, unless there are some. They become part of the
// log when they are complete, which holds up neither readers nor writers.
func createPartitions(ctx context.Context, pool *pgxpool.Pool, begins time.Time) error {
	table := dayTable(logParts[0], begins)
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
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

// logParts are the tables that have a partition for each day.
var logParts = []string{"posthaste.events", "posthaste.postings", "posthaste.responses"}

// dayTable names the partition of a day.
func dayTable(part string, begins time.Time) string {
	return part + "_" + begins.UTC().Format(dayFormat)
}

const dayFormat = "20060102"

// dropDays drops the partitions of days before a time in which no event is left. Days
// that somebody may still write to are left alone, which are those from that of the last
// position on.
func (s *Store) dropDays(ctx context.Context, before time.Time) error {
	last, err := row(ctx, s.pool, pgx.RowTo[int64], `SELECT last_value FROM posthaste.positions`)
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

// dropDay drops the partitions of a day if there is no event in it. Readers and writers of the log
// wait while it does, so it waits for them no longer than dropWait: it can be done
// another time.
func (s *Store) dropDay(ctx context.Context, begins time.Time) error {
	const dropWait, lockNotAvailable = "100ms", "55P03"
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
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
		s.partitions.forget(begins)
		return nil
	})
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && (said.Code == lockNotAvailable || said.Code == undefinedTable) {
		return nil
	}
	return err
}

// undefinedTable is what the database says of a table that another node has dropped.
const undefinedTable = "42P01"
