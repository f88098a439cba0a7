package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store/postgres/node"
)

// TryLease implements store.Backend, by the database's clock. A dead node's jobs are free. It removes
// jobs that expired long ago.
func (s *Store) TryLease(ctx context.Context, job string, held time.Duration) (bool, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (bool, error) {
		got, err := rows(ctx, q, pgx.RowTo[int64], `
			WITH gone AS (DELETE FROM posthaste.jobs WHERE job IN (
				SELECT job FROM posthaste.jobs WHERE expires_at < clock_timestamp() - $4::interval AND job <> $1 FOR UPDATE SKIP LOCKED))
			INSERT INTO posthaste.jobs AS j (job, node, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
			ON CONFLICT (job) DO UPDATE SET node = excluded.node, expires_at = excluded.expires_at
			WHERE j.node = excluded.node OR j.expires_at <= clock_timestamp() OR NOT EXISTS (
				SELECT FROM posthaste.nodes n WHERE n.node = j.node AND n.expires_at > clock_timestamp())
			RETURNING node`, job, s.node.Number(), held, node.GraveTime)
		return len(got) > 0, err
	})
}
