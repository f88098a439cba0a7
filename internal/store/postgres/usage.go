package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// The kinds of what is kept. Their numbers are stored.
const (
	usageLog         int16 = 1
	usageDeadLetters int16 = 2
	usageFailedRuns  int16 = 3
	usageRuns        int16 = 4
)

// keptOf names a count of what is kept.
type usageKey struct {
	user string
	kind int16
	day  int64 // when it begins, in Unix milliseconds; of the log only
}

// kept is how much is kept.
type usageChange struct{ entries, bytes int }

// eventOverhead is what an event needs beside its record, about, in bytes.
const eventOverhead = 100

func dayOf(p posthaste.Position) int64 { return p.Time().UTC().Truncate(day).UnixMilli() }

// count says that there is more of something, or less.
func (t *userTx) count(of usageKey, entries, bytes int) {
	t.writes++
	k := t.usage[of]
	t.usage[of] = usageChange{k.entries + entries, k.bytes + bytes}
}

// writeKept writes by how much a count has changed. One that comes to nothing goes.
func writeUsage(batch *pgx.Batch, of usageKey, k usageChange) {
	batch.Queue(`
		INSERT INTO posthaste.kept (user_id, kind, day, entries, bytes) VALUES ($1, $2, $3, $4, greatest($5, 0))
		ON CONFLICT (user_id, kind, day) DO UPDATE
			SET entries = kept.entries + excluded.entries, bytes = greatest(kept.bytes + $5, 0)`,
		of.user, of.kind, of.day, k.entries, k.bytes)
	if k.entries <= 0 {
		batch.Queue(`DELETE FROM posthaste.kept WHERE user_id = $1 AND kind = $2 AND day = $3 AND entries = 0`, of.user, of.kind, of.day)
	}
}

// removed is the place of something that was removed, and its size.
type removed struct {
	at    int64
	bytes int
}

func scanRemoved(r pgx.CollectableRow) (gone removed, err error) {
	err = r.Scan(&gone.at, &gone.bytes)
	return gone, err
}

func placesOf(gone []removed) []int64 { return column(gone, func(r removed) int64 { return r.at }) }

func (t *userTx) countRemoved(of usageKey, gone []removed) {
	for _, r := range gone {
		t.count(of, -1, -r.bytes)
	}
}

// Usage implements store.Retention.
func (s *Store) Usage(ctx context.Context, user string) (store.Usage, error) {
	return s.usage(ctx, `WHERE user_id = $1`, user)
}

// TotalUsage implements store.Retention.
func (s *Store) TotalUsage(ctx context.Context) (store.Usage, error) {
	return s.usage(ctx, ``)
}

// keptRow is a count and when the oldest of what it counts came to be.
type usageRow struct {
	usageKey
	store.KindUsage
}

// usage adds up counts. They and the oldest of each are read by one statement, and so
// as of one moment.
func (s *Store) usage(ctx context.Context, where string, args ...any) (u store.Usage, err error) {
	counts, err := read(ctx, s, func(ctx context.Context, q querier) ([]usageRow, error) {
		return rows(ctx, q, scanUsage, `
			SELECT user_id, kind, day, entries, bytes, CASE kind
				WHEN 1 THEN (SELECT min(first) FROM posthaste.events e WHERE e.user_id = k.user_id
					AND first >= day << 20 AND first < (day + 86400000) << 20)
				WHEN 2 THEN (SELECT min(id) FROM posthaste.dead_letters d WHERE d.user_id = k.user_id)
				WHEN 3 THEN (SELECT min(id) FROM posthaste.run_dead_letters d WHERE d.user_id = k.user_id)
				ELSE (SELECT min(position) FROM posthaste.runs r WHERE r.user_id = k.user_id) END
			FROM posthaste.kept k `+where+` ORDER BY day`, args...)
	})
	for _, k := range counts {
		if k.Entries > 0 {
			addUsage(&u, k)
		}
	}
	return u, err
}

func scanUsage(r pgx.CollectableRow) (k usageRow, err error) {
	var oldest *int64
	err = r.Scan(&k.user, &k.kind, &k.day, &k.Entries, &k.Bytes, &oldest)
	if oldest != nil {
		k.Oldest = posthaste.Position(*oldest).Time()
	}
	return k, err
}

// addKept adds a count to those of its kind. Days come in order.
func addUsage(u *store.Usage, k usageRow) {
	switch k.kind {
	case usageDeadLetters:
		sumUsage(&u.DeadLetters, k.KindUsage)
	case usageFailedRuns:
		sumUsage(&u.FailedRuns, k.KindUsage)
	case usageRuns:
		sumUsage(&u.Runs, k.KindUsage)
	default:
		start := time.UnixMilli(k.day).UTC()
		if last := len(u.Days) - 1; last < 0 || !u.Days[last].Start.Equal(start) {
			u.Days = append(u.Days, store.DayUsage{Start: start})
		}
		sumUsage(&u.Days[len(u.Days)-1].KindUsage, k.KindUsage)
		sumUsage(&u.Log, k.KindUsage)
	}
}

func sumUsage(sum *store.KindUsage, k store.KindUsage) {
	sum.Entries += k.Entries
	sum.Bytes += k.Bytes
	if sum.Oldest.IsZero() || k.Oldest.Before(sum.Oldest) {
		sum.Oldest = k.Oldest
	}
}
