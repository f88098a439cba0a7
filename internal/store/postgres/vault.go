package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
)

// Secret implements store.Vault.
func (s *Store) Secret(ctx context.Context, key string) (string, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (string, error) { return secret(ctx, q, key) })
}

func secret(ctx context.Context, q querier, key string) (string, error) {
	value, err := row(ctx, q, pgx.RowTo[[]byte], `SELECT value FROM posthaste.secrets WHERE key = $1`, []byte(key))
	return string(value), err
}

// PutSecretIfAbsent implements store.Vault.
func (s *Store) PutSecretIfAbsent(ctx context.Context, key, value string) (string, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (string, error) {
		_, err := s.pool.Exec(ctx, `
			INSERT INTO posthaste.secrets (key, value) VALUES ($1, $2)
			ON CONFLICT DO NOTHING`, []byte(key), []byte(value))
		if err != nil {
			return "", err
		}
		return secret(ctx, q, key)
	})
}

// CompareAndSwapSecret implements store.Vault.
func (s *Store) CompareAndSwapSecret(ctx context.Context, key, old, value string) error {
	_, err := read(ctx, s, func(ctx context.Context, _ querier) (struct{}, error) {
		tag, err := s.pool.Exec(ctx, `
			UPDATE posthaste.secrets SET value = $3 WHERE key = $1 AND value = $2`,
			[]byte(key), []byte(old), []byte(value))
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrConflict
		}
		return struct{}{}, err
	})
	return err
}
