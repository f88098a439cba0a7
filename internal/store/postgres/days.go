package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste"
)

const day = 24 * time.Hour

// days makes the partitions of the log, one for each day of UTC.
type days struct {
	mu   sync.Mutex
	made map[time.Time]bool
}

// make sees to it that there are partitions for the day of a time and the next, if
// there is a time.
func (d *days) make(ctx context.Context, pool *pgxpool.Pool, now time.Time) error {
	if now.IsZero() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	today := now.UTC().Truncate(day)
	for _, begins := range []time.Time{today, today.Add(day)} {
		if d.made[begins] {
			continue
		}
		if err := makeDay(ctx, pool, begins); err != nil {
			return err
		}
		if d.made == nil {
			d.made = map[time.Time]bool{}
		}
		d.made[begins] = true
	}
	return nil
}

// makeDay makes a partition, unless there is one. It becomes part of the log when it
// is complete, which holds up neither readers nor writers.
func makeDay(ctx context.Context, pool *pgxpool.Pool, begins time.Time) error {
	table := dayTable(begins)
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&exists); err != nil || exists {
			return err
		}
		_, err := tx.Exec(ctx, fmt.Sprintf(`
			CREATE TABLE %s (LIKE posthaste.events INCLUDING DEFAULTS);
			ALTER TABLE posthaste.events ATTACH PARTITION %[1]s FOR VALUES FROM (%d) TO (%d)`,
			table, posthaste.FirstPosition(begins), posthaste.FirstPosition(begins.Add(day))))
		return err
	})
}

// dayTable names the partition of a day.
func dayTable(begins time.Time) string {
	return "posthaste.events_" + begins.UTC().Format("20060102")
}
