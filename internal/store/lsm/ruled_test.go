package lsm_test

import (
	"context"
	"time"

	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// ruled is a store with the rules of delivery.
type ruled struct {
	*ledger.Ledger
	*lsm.Store
}

// openRuled is lsm.Open with the rules.
func openRuled(dir string, options lsm.Options) (*ruled, error) {
	s, err := lsm.Open(dir, options)
	if err != nil {
		return nil, err
	}
	return &ruled{ledger.New(s), s}, nil
}

// Both have these methods: the rules add to what the backend does.

func (r *ruled) Claim(ctx context.Context, now time.Time, limit int) ([]store.Claim, time.Time, error) {
	return r.Ledger.Claim(ctx, now, limit)
}

func (r *ruled) Release(ctx context.Context, now time.Time, claims []store.Claim) error {
	return r.Ledger.Release(ctx, now, claims)
}
