package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// The kinds of usage and of terms, which are stored except for the first.
const (
	usageInFlight    = int16(0)
	usageLog         = int16(store.ItemEvent)
	usageDeadLetters = int16(store.ItemDeadLetter)
	usageFailedRuns  = int16(store.ItemRunDeadLetter)
	usageRuns        = int16(store.ItemRun)
)

// usageKey names a count.
type usageKey struct {
	user string
	kind int16
	day  int64 // when it begins, in Unix milliseconds; of the log only
}

type usageChange struct{ entries, bytes int }

// eventOverhead is about how many bytes an event takes beside its record.
const eventOverhead = 100

func dayOf(p posthaste.Position) int64 { return p.Time().UTC().Truncate(day).UnixMilli() }

func (t *userTx) addUsage(of usageKey, entries, bytes int) {
	t.writes++
	k := t.usage[of]
	t.usage[of] = usageChange{k.entries + entries, k.bytes + bytes}
}

// writeUsage changes a count, and deletes it at zero.
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

func (s *Store) Usage(ctx context.Context, user string) (store.Usage, error) {
	complete := func(ctx context.Context, _ querier) (struct{}, error) {
		if user == "" {
			return struct{}{}, s.indexGrown(ctx)
		}
		return struct{}{}, s.completeIndex(ctx, user)
	}
	if _, err := read(ctx, s, complete); err != nil {
		return store.Usage{}, err
	}
	if user == "" {
		u, err := s.usage(ctx, ``, `SELECT count(*) FROM posthaste.live WHERE node <> 0`)
		if err != nil {
			return u, err
		}
		u.Users, err = s.users(ctx)
		return u, err
	}
	return s.usage(ctx, `WHERE user_id = $1`, `SELECT coalesce(sum(in_flight), 0) FROM posthaste.lanes WHERE user_id = $1`, user)
}

// users returns those that have anything that Usage counts, or flow-control keys.
func (s *Store) users(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]string, error) {
		return rows(ctx, q, pgx.RowTo[string], `
			SELECT user_id FROM posthaste.kept
			UNION SELECT user_id FROM posthaste.users u
				WHERE EXISTS (SELECT FROM posthaste.records r WHERE r.user_id = u.user_id AND r.kind = $1)
			ORDER BY user_id`, store.ItemFlowKey)
	})
}

// usageRow is a count and the time of the oldest thing counted.
type usageRow struct {
	usageKey
	store.KindUsage
}

// usage sums counts. One statement reads them with the oldest of each, and that of messages in flight.
func (s *Store) usage(ctx context.Context, where, inFlight string, args ...any) (u store.Usage, err error) {
	counts, err := read(ctx, s, func(ctx context.Context, q querier) ([]usageRow, error) {
		return rows(ctx, q, scanUsage, `
			SELECT user_id, kind, day, entries, bytes, CASE kind
				WHEN 13 THEN (SELECT min(first) FROM posthaste.events e WHERE e.user_id = k.user_id
					AND first >= day << 20 AND first < (day + 86400000) << 20) END,
				(SELECT key FROM posthaste.records r WHERE r.user_id = k.user_id AND r.kind = k.kind ORDER BY key LIMIT 1)
			FROM posthaste.kept k `+where+`
			UNION ALL SELECT '', 0::smallint, 0, (`+inFlight+`), 0, NULL, NULL
			ORDER BY day`, args...)
	})
	for _, k := range counts {
		if k.Entries > 0 {
			sumByKind(&u, k)
		}
	}
	return u, err
}

func scanUsage(r pgx.CollectableRow) (k usageRow, err error) {
	var oldest *int64
	var key []byte
	err = r.Scan(&k.user, &k.kind, &k.day, &k.Entries, &k.Bytes, &oldest, &key)
	switch {
	case oldest != nil:
		k.Oldest = posthaste.Position(*oldest).Time()
	case len(key) == 8:
		k.Oldest = positionAt(key).Time()
	}
	return k, err
}

// sumByKind adds a count to those of its kind. Days come in order.
func sumByKind(u *store.Usage, k usageRow) {
	switch k.kind {
	case usageInFlight:
		u.InFlight = int(k.Entries)
	case usageDeadLetters:
		u.DeadLetters.Add(k.KindUsage)
	case usageFailedRuns:
		u.FailedRuns.Add(k.KindUsage)
	case usageRuns:
		u.Runs.Add(k.KindUsage)
	default:
		start := time.UnixMilli(k.day).UTC()
		if last := len(u.Days) - 1; last < 0 || !u.Days[last].Start.Equal(start) {
			u.Days = append(u.Days, store.DayUsage{Start: start})
		}
		u.Days[len(u.Days)-1].KindUsage.Add(k.KindUsage)
		u.Log.Add(k.KindUsage)
	}
}
