package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// flowKey is a flow-control key within a transaction.
type flowKey struct {
	*posthaste.FlowKey
	dirty    bool
	counted  bool // inFlight is known
	inFlight int  // attempts
}

// flowKey returns a key, which holds nothing but its name if there is none. It is
// read once in a transaction, and written at its end if it is dirty.
func (tx *tx) flowKey(user, key string) (*flowKey, error) {
	id := name{user, key}
	if known := tx.keys[id]; known != nil {
		return known, nil
	}
	stored, err := flowKeys.get(tx.ctx, tx, user, key)
	if errors.Is(err, store.ErrNotFound) {
		stored, err = &posthaste.FlowKey{Key: key}, nil
	}
	if err != nil {
		return nil, err
	}
	tx.keys[id] = &flowKey{FlowKey: stored}
	return tx.keys[id], nil
}

func (tx *tx) saveFlowKeys() {
	for id, key := range tx.keys {
		if key.dirty {
			flowKeys.put(tx, id.user, key.FlowKey)
		}
	}
}

// admit says whether an attempt may start under the key, and counts it if so. If
// not, wakes is when to look again, zero if only an event can change that.
func (k *flowKey) admit(now time.Time) (ok bool, wakes time.Time) {
	if k.Paused || k.Parallelism > 0 && k.inFlight >= k.Parallelism {
		return false, time.Time{}
	}
	window, wakes, ok := k.window().Admit(k.FlowLimit, now)
	if ok {
		k.inFlight++
		k.dirty = k.dirty || window != k.window()
		k.WindowStartedAt, k.WindowCount = window.StartedAt, window.Count
	}
	return ok, wakes
}

func (k *flowKey) window() flow.Window {
	return flow.Window{StartedAt: k.WindowStartedAt, Count: k.WindowCount}
}

// UpdateFlowKey implements store.FlowKeys.
func (s *Store) UpdateFlowKey(ctx context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		err := flowKeys.update(tx, user, key, &posthaste.FlowKey{Key: key}, func(k *posthaste.FlowKey) error {
			if err := change(k); err != nil {
				return err
			}
			if k.CreatedAt.IsZero() {
				k.CreatedAt = now
			}
			return nil
		})
		tx.touchHeldBy(user, []byte(key))
		return err
	})
}

// FlowKey implements store.FlowKeys.
func (s *Store) FlowKey(ctx context.Context, now time.Time, user, key string) (store.FlowStatus, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.FlowStatus, error) {
		k, err := flowKeys.get(ctx, q, user, key)
		if err != nil {
			return store.FlowStatus{}, err
		}
		return flowStatus(ctx, q, now, user, k)
	})
}

// flowStatus counts what happens under a key.
func flowStatus(ctx context.Context, q querier, now time.Time, user string, k *posthaste.FlowKey) (store.FlowStatus, error) {
	status := store.FlowStatus{FlowKey: *k}
	window := flow.Window{StartedAt: k.WindowStartedAt, Count: k.WindowCount}.Current(k.FlowLimit, now)
	status.WindowStartedAt, status.WindowCount = window.StartedAt, window.Count
	counts, err := row(ctx, q, pgx.RowTo[[]int], `
		SELECT ARRAY[
			(SELECT count(*) FROM posthaste.live WHERE user_id = $1 AND flow_key = $2 AND lease <> 0),
			(SELECT count(*) FROM posthaste.live WHERE user_id = $1 AND flow_key = $2 AND lease = 0 AND NOT ended AND due <= $3)]`,
		user, []byte(k.Key), now.UnixMilli())
	if err == nil {
		status.InFlight, status.Waiting = counts[0], counts[1]
	}
	return status, err
}

// FlowKeys implements store.FlowKeys.
func (s *Store) FlowKeys(ctx context.Context, now time.Time, user, contains string) ([]store.FlowStatus, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (found []store.FlowStatus, err error) {
		all, err := flowKeys.list(ctx, q, user)
		if err != nil {
			return nil, err
		}
		for _, k := range all {
			if !strings.Contains(k.Key, contains) {
				continue
			}
			status, err := flowStatus(ctx, q, now, user, k)
			if err != nil {
				return nil, err
			}
			found = append(found, status)
		}
		return found, nil
	})
}
