package postgres_test

import (
	"context"
	"time"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
)

// ruled is a node with the rules of delivery.
type ruled struct {
	*ledger.Ledger
	*postgres.Store
}

func newRuled(s *postgres.Store) *ruled {
	return &ruled{ledger.New(partition.New(s)), s}
}

// Both have these methods: the rules add to what the backend does.

func (r *ruled) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	return r.Ledger.Claim(ctx, now, limit)
}

func (r *ruled) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	return r.Ledger.Release(ctx, now, claims)
}
