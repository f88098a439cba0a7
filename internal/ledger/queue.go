package ledger

import (
	"context"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// UpdateQueue implements store.Store.
func (l *Ledger) UpdateQueue(ctx context.Context, now time.Time, user, name string, change func(*posthaste.Queue) error) error {
	return l.update(ctx, now, user, queues.scope(user, name).Hint, func(tx *tx) error {
		return queues.update(tx, name, posthaste.Queue{Name: name}, func(q *posthaste.Queue) error {
			if err := change(q); err != nil {
				return err
			}
			stamp(now, &q.CreatedAt, &q.UpdatedAt)
			return nil
		})
	})
}

// Queue implements store.Store.
func (l *Ledger) Queue(ctx context.Context, user, name string) (status store.QueueStatus, err error) {
	err = l.View(ctx, queues.scope(user, name), func(r store.Reader) error {
		q, err := queues.get(r, user, name)
		if err != nil {
			return err
		}
		all, err := queueStatuses(r, []*posthaste.Queue{q})
		if err == nil {
			status = all[0]
		}
		return err
	})
	return status, err
}

// Queues implements store.Store.
func (l *Ledger) Queues(ctx context.Context, user, after string) (list store.List[store.QueueStatus], err error) {
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		part, err := queues.part(r, user, after)
		if err != nil {
			return err
		}
		list.Next = part.Next
		list.Items, err = queueStatuses(r, part.Items)
		return err
	})
	return list, err
}

// queueStatuses counts the messages of queues.
func queueStatuses(r store.Reader, of []*posthaste.Queue) ([]store.QueueStatus, error) {
	lanes := make([]posthaste.Lane, len(of))
	for i, q := range of {
		lanes[i] = posthaste.Lane{Kind: posthaste.LaneQueue, Name: q.Name}
	}
	lags, err := r.LaneLengths(lanes)
	if err != nil {
		return nil, err
	}
	statuses := make([]store.QueueStatus, len(of))
	for i, q := range of {
		statuses[i] = store.QueueStatus{Queue: *q, Lag: lags[i]}
	}
	return statuses, nil
}

// QueueNames implements store.Store.
func (l *Ledger) QueueNames(ctx context.Context, user string) ([]string, error) {
	return queues.names(ctx, l, user)
}
