package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

func (s *Store) UpdateSchedule(ctx context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		return schedules.update(tx, user, id, &posthaste.Schedule{ID: id, User: user}, func(sc *posthaste.Schedule) error {
			if err := change(sc); err != nil {
				return err
			}
			if sc.CreatedAt.IsZero() {
				sc.CreatedAt = now
			}
			return nil
		})
	})
}

func (s *Store) Schedule(ctx context.Context, user, id string) (*posthaste.Schedule, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.Schedule, error) {
		return schedules.get(ctx, q, user, id)
	})
}

func (s *Store) Schedules(ctx context.Context, user, after string) (store.List[*posthaste.Schedule], error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.List[*posthaste.Schedule], error) {
		return schedules.page(ctx, q, user, after)
	})
}

func (s *Store) DeleteSchedule(ctx context.Context, user, id string) error {
	return s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		schedules.remove(tx, user, id)
		return nil
	})
}

// DueSchedules implements store.Schedules. Each node gets all that are due; the first Tick to
// commit wins.
func (s *Store) DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error) {
	for count := limit + 1; ; count *= 2 { // unreadable ones do not count
		first, err := read(ctx, s, func(ctx context.Context, q querier) ([]dated[posthaste.Schedule], error) {
			return schedules.dueBy(ctx, q, math.MaxInt64, count, except...)
		})
		if err != nil {
			return nil, time.Time{}, err
		}
		due, next, err = dueOf(first, now, limit)
		if !next.IsZero() || len(first) < count {
			return due, next, err
		}
	}
}

// dueOf returns the due ones of schedules in order, and when the next is: see store.Schedules.
func dueOf(waiting []dated[posthaste.Schedule], now time.Time, limit int) (due []*posthaste.Schedule, next time.Time, err error) {
	var damaged []error
	for _, w := range waiting {
		switch {
		case w.at > now.UnixMilli() || len(due) == limit:
			return due, fromMilli(&w.at), errors.Join(damaged...)
		case w.damage != nil:
			damaged = append(damaged, w.damage)
		default:
			due = append(due, w.value)
		}
	}
	return due, time.Time{}, errors.Join(damaged...)
}

func (s *Store) Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	return s.call(ctx, now, []string{after.User}, func(tx *tx) error {
		stored, err := schedules.getIn(tx, after.User, after.ID)
		if errors.Is(err, store.ErrNotFound) || err == nil && (schedules.at(stored) == nil || !stored.Equal(before)) {
			return store.ErrConflict
		}
		if err != nil {
			return err
		}
		schedules.put(tx, after.User, after)
		return tx.accept(messages)
	})
}

func (s *Store) UpdateURLGroup(ctx context.Context, now time.Time, user, name string, change func(*posthaste.URLGroup) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		var left int
		err := urlGroups.update(tx, user, name, &posthaste.URLGroup{Name: name}, func(g *posthaste.URLGroup) error {
			if err := change(g); err != nil {
				return err
			}
			stamp(now, &g.CreatedAt, &g.UpdatedAt)
			left = len(g.Endpoints)
			return nil
		})
		if err == nil && left == 0 {
			urlGroups.remove(tx, user, name)
		}
		return err
	})
}

func (s *Store) URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.URLGroup, error) {
		return urlGroups.get(ctx, q, user, name)
	})
}

func (s *Store) URLGroups(ctx context.Context, user, after string) (store.List[*posthaste.URLGroup], error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.List[*posthaste.URLGroup], error) {
		return urlGroups.page(ctx, q, user, after)
	})
}

func (s *Store) DeleteURLGroup(ctx context.Context, user, name string) error {
	return s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		urlGroups.remove(tx, user, name)
		return nil
	})
}

func (s *Store) PutAction(ctx context.Context, action *posthaste.BulkAction) error {
	return s.call(ctx, time.Time{}, []string{action.User}, func(tx *tx) error {
		actions.put(tx, action.User, action)
		return nil
	})
}

func (s *Store) Action(ctx context.Context, user, id string) (*posthaste.BulkAction, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (*posthaste.BulkAction, error) {
		return actions.get(ctx, q, user, id)
	})
}

func (s *Store) Actions(ctx context.Context, user string) ([]*posthaste.BulkAction, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]*posthaste.BulkAction, error) {
		return actions.list(ctx, q, user)
	})
}

func (s *Store) UnfinishedActions(ctx context.Context) ([]*posthaste.BulkAction, error) {
	found, err := read(ctx, s, func(ctx context.Context, q querier) ([]dated[posthaste.BulkAction], error) {
		return actions.dueBy(ctx, q, 0, math.MaxInt32)
	})
	var unfinished []*posthaste.BulkAction
	damaged := []error{err}
	for _, f := range found {
		if f.damage != nil {
			damaged = append(damaged, f.damage)
			continue
		}
		unfinished = append(unfinished, f.value)
	}
	return unfinished, errors.Join(damaged...)
}

func (s *Store) UpdateAction(ctx context.Context, user, id string, change func(*posthaste.BulkAction)) error {
	return s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		action, err := actions.getIn(tx, user, id)
		if err != nil {
			return err
		}
		change(action)
		actions.put(tx, user, action)
		return nil
	})
}

// DeleteActions implements store.Actions. Finished actions do not change, so no lock is
// needed. It removes expired jobs, too.
func (s *Store) DeleteActions(ctx context.Context, completedBefore time.Time) error {
	_, err := read(ctx, s, func(ctx context.Context, _ querier) (struct{}, error) {
		_, err := s.pool.Exec(ctx, `DELETE FROM posthaste.records WHERE kind = $1 AND due > 0 AND due < $2`,
			actions.kind, completedBefore.UnixMilli())
		if err == nil {
			err = s.forgetJobs(ctx)
		}
		return struct{}{}, err
	})
	return err
}

func (s *Store) Secret(ctx context.Context, key string) (string, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (string, error) { return secret(ctx, q, key) })
}

func secret(ctx context.Context, q querier, key string) (string, error) {
	value, err := row(ctx, q, pgx.RowTo[[]byte], `SELECT value FROM posthaste.secrets WHERE key = $1`, []byte(key))
	return string(value), err
}

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

// TryLease implements store.Jobs, by the database's clock. A dead node's jobs are free.
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

func (s *Store) forgetJobs(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM posthaste.jobs WHERE expires_at < clock_timestamp() - $1::interval`, graveTime)
	return err
}
