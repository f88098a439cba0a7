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
		tx.exec(`UPDATE posthaste.lanes SET ready = 0 WHERE user_id = $1 AND kind = $2 AND lane = $3`,
			user, int16(posthaste.LaneQueue), []byte(queueLane(user, name).name))
		return err
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
		return queueStatus(ctx, q, user, queue)
	})
}

// queueStatus counts what in a queue has not ended.
func queueStatus(ctx context.Context, q querier, user string, queue *posthaste.Queue) (store.QueueStatus, error) {
	lag, err := row(ctx, q, pgx.RowTo[int], `
		SELECT live FROM posthaste.lanes WHERE user_id = $1 AND kind = $2 AND lane = $3`,
		user, int16(posthaste.LaneQueue), []byte(queueLane(user, queue.Name).name))
	return store.QueueStatus{Queue: *queue, Lag: lag}, except(err, store.ErrNotFound)
}

// Queues implements store.Queues.
func (s *Store) Queues(ctx context.Context, user string) ([]store.QueueStatus, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]store.QueueStatus, error) {
		all, err := queues.list(ctx, q, user)
		if err != nil {
			return nil, err
		}
		result := make([]store.QueueStatus, len(all))
		for i, queue := range all {
			if result[i], err = queueStatus(ctx, q, user, queue); err != nil {
				return nil, err
			}
		}
		return result, nil
	})
}

// DeleteQueue implements store.Queues.
func (s *Store) DeleteQueue(ctx context.Context, now time.Time, user, name string) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		lane := queueLane(user, name)
		waiting, err := tx.lives(`user_id = $1 AND kind = $2 AND lane = $3`, user, lane.kind, []byte(lane.name))
		if err != nil {
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
