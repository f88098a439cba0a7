package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// TryLease implements store.Jobs, by the clock of the database. What a dead node holds is
// free.
func (s *Store) TryLease(ctx context.Context, job string, held time.Duration) (bool, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (bool, error) {
		got, err := rows(ctx, q, pgx.RowTo[int64], `
			INSERT INTO posthaste.jobs AS j (job, node, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
			ON CONFLICT (job) DO UPDATE SET node = excluded.node, expires_at = excluded.expires_at
			WHERE j.node = excluded.node OR j.expires_at <= clock_timestamp() OR NOT EXISTS (
				SELECT FROM posthaste.nodes n WHERE n.node = j.node AND n.expires_at > clock_timestamp())
			RETURNING node`, job, s.node.number(), held)
		return len(got) > 0, err
	})
}

// forgetJobs removes jobs that nobody holds.
func (s *Store) forgetJobs(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM posthaste.jobs WHERE expires_at < clock_timestamp() - $1::interval`, graveTime)
	return err
}
