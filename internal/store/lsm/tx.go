package lsm

import (
	"context"
	"errors"
	"time"

	"posthaste/internal/store"
)

var errUnfinished = errors.New("not written yet")

func (s *Store) Update(context.Context, time.Time, store.Scope, func(store.Tx) error) error {
	return errUnfinished
}

func (s *Store) View(context.Context, store.Scope, func(store.Reader) error) error {
	return errUnfinished
}

func (s *Store) Due(context.Context, store.ItemKind, time.Time, int, ...string) ([]store.Record, time.Time, error) {
	return nil, time.Time{}, errUnfinished
}
