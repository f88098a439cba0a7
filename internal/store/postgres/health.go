package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
)

// Ping implements store.Health. It commits a renewal of this node.
func (s *Store) Ping(ctx context.Context) error {
	_, err := read(ctx, s, func(ctx context.Context, _ querier) (struct{}, error) {
		return struct{}{}, s.renew(ctx)
	})
	return err
}

// Stats implements store.Health.
func (s *Store) Stats(ctx context.Context, now time.Time) (store.Stats, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.Stats, error) {
		return row(ctx, q, func(r pgx.CollectableRow) (stats store.Stats, err error) {
			var oldest *int64
			err = r.Scan(&oldest, &stats.InFlight, &stats.Lanes, &stats.DiskBytes)
			stats.OldestDueAt = fromMilli(oldest)
			return stats, err
		}, `
			SELECT
				(SELECT min(first.due) FROM posthaste.lanes l, LATERAL (
					SELECT due FROM posthaste.live w
					WHERE w.user_id = l.user_id AND w.kind = l.kind AND w.lane = l.lane AND NOT begun
					ORDER BY place, id LIMIT 1) AS first WHERE first.due < $1),
				(SELECT count(*) FROM posthaste.live WHERE node <> 0),
				(SELECT count(*) FROM posthaste.lanes WHERE live > 0),
				pg_database_size(current_database())`, now.UnixMilli())
	})
}

// InFlight implements store.Health.
func (s *Store) InFlight(ctx context.Context, user string) (int, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (int, error) {
		return row(ctx, q, pgx.RowTo[int], `SELECT coalesce(sum(in_flight), 0)::integer FROM posthaste.lanes WHERE user_id = $1`, user)
	})
}
