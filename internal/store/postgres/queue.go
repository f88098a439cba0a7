package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

func newQueue(name string, now time.Time) *posthaste.Queue {
	return &posthaste.Queue{Name: name, Parallelism: posthaste.DefaultParallelism, CreatedAt: now, UpdatedAt: now}
}

// UpdateQueue implements store.Queues.
func (s *Store) UpdateQueue(ctx context.Context, now time.Time, user, name string, change func(*posthaste.Queue) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		err := queues.update(tx, user, name, &posthaste.Queue{Name: name}, func(q *posthaste.Queue) error {
			if err := change(q); err != nil {
				return err
			}
			stamp(now, &q.CreatedAt, &q.UpdatedAt)
			return nil
		})
		if err != nil {
			return err
		}
		tx.exec(`UPDATE posthaste.lanes SET ready = 0 WHERE user_id = $1 AND kind = $2 AND lane = $3`,
			user, int16(posthaste.LaneQueue), []byte(queueLane(user, name).name))
		return nil
	})
}

func queueLane(user, name string) laneID {
	return laneOf(&posthaste.Message{User: user, Queue: name})
}

// Queue implements store.Queues.
func (s *Store) Queue(ctx context.Context, user, name string) (store.QueueStatus, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.QueueStatus, error) {
		queue, err := queues.get(ctx, q, user, name)
		if err != nil {
			return store.QueueStatus{}, err
		}
		all, err := queueStatuses(ctx, q, user, queue)
		if err != nil {
			return store.QueueStatus{}, err
		}
		return all[0], nil
	})
}

// Queues implements store.Queues.
func (s *Store) Queues(ctx context.Context, user string) ([]store.QueueStatus, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]store.QueueStatus, error) {
		all, err := queues.list(ctx, q, user)
		if err != nil {
			return nil, err
		}
		return queueStatuses(ctx, q, user, all...)
	})
}

// queueStatuses counts what in queues has not ended.
func queueStatuses(ctx context.Context, q querier, user string, of ...*posthaste.Queue) ([]store.QueueStatus, error) {
	lanes := make([][]byte, len(of))
	for i, queue := range of {
		lanes[i] = []byte(queueLane(user, queue.Name).name)
	}
	lags, err := rows(ctx, q, pgx.RowTo[int], `
		SELECT coalesce(l.live, 0) FROM unnest($3::bytea[]) WITH ORDINALITY AS w (lane, n)
		LEFT JOIN posthaste.lanes l ON l.user_id = $1 AND l.kind = $2 AND l.lane = w.lane ORDER BY w.n`,
		user, int16(posthaste.LaneQueue), lanes)
	if err != nil {
		return nil, err
	}
	statuses := make([]store.QueueStatus, len(of))
	for i, queue := range of {
		statuses[i] = store.QueueStatus{Queue: *queue, Lag: lags[i]}
	}
	return statuses, nil
}

// DeleteQueue implements store.Queues.
func (s *Store) DeleteQueue(ctx context.Context, now time.Time, user, name string) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		lane := queueLane(user, name)
		waiting, err := tx.livesOf(`user_id = $1 AND kind = $2 AND lane = $3`, user, lane.kind, []byte(lane.name))
		if err != nil {
			return err
		}
		if err := tx.learnAll(waiting); err != nil {
			return err
		}
		for _, l := range waiting {
			if _, err := tx.cancel(l); err != nil {
				return err
			}
		}
		queues.remove(tx, user, name)
		return nil
	})
}
