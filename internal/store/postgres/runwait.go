package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

func scanWaiter(r pgx.CollectableRow) (*posthaste.Waiter, error) {
	var at int64
	var data []byte
	if err := r.Scan(&at, &data); err != nil {
		return nil, err
	}
	return record.DecodeWaiter(posthaste.Position(at), data)
}

func waitersFor(ctx context.Context, q querier, user string, topic posthaste.Topic) ([]*posthaste.Waiter, error) {
	return rows(ctx, q, scanWaiter, `
		SELECT position, record FROM posthaste.waiters
		WHERE user_id = $1 AND topic = $2 ORDER BY position`, user, shortHash(string(topic)))
}

func waitersOf(ctx context.Context, q querier, user string, run posthaste.Position) ([]*posthaste.Waiter, error) {
	return rows(ctx, q, scanWaiter, `
		SELECT position, record FROM posthaste.waiters
		WHERE user_id = $1 AND run = $2 ORDER BY position`, user, int64(run))
}

func (s *Store) EventWaiters(ctx context.Context, user, eventID string) ([]*posthaste.Waiter, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]*posthaste.Waiter, error) {
		return waitersFor(ctx, q, user, posthaste.EventTopic(eventID))
	})
}

func (s *Store) RunWaiters(ctx context.Context, user string, run posthaste.Position) ([]*posthaste.Waiter, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]*posthaste.Waiter, error) {
		return waitersOf(ctx, q, user, run)
	})
}

type deadline struct {
	at time.Time
	store.DueWaiter
}

func (s *Store) DueWaiters(ctx context.Context, now time.Time, limit int, except ...string) (due []store.DueWaiter, next time.Time, err error) {
	deadlines, err := read(ctx, s, func(ctx context.Context, q querier) ([]deadline, error) {
		return rows(ctx, q, scanDeadline, `
			SELECT deadline, user_id, run, position FROM posthaste.waiters
			WHERE deadline IS NOT NULL AND (user_id = ANY($2)) IS NOT TRUE
			ORDER BY deadline, user_id, run, position LIMIT $1`, limit+1, except)
	})
	for _, d := range deadlines {
		if len(due) == limit || d.at.After(now) {
			return due, d.at, err
		}
		due = append(due, d.DueWaiter)
	}
	return due, time.Time{}, err
}

func scanDeadline(r pgx.CollectableRow) (d deadline, err error) {
	var at, run, position int64
	err = r.Scan(&at, &d.User, &run, &position)
	d.at, d.Run, d.Position = time.UnixMilli(at), posthaste.Position(run), posthaste.Position(position)
	return d, err
}

func (r *runTx) Wait(w *posthaste.Waiter) {
	w.Position = r.NextPosition()
	r.stageExec(`
		INSERT INTO posthaste.waiters (user_id, run, position, topic, deadline, record) VALUES ($1, $2, $3, $4, $5, $6)`,
		r.user, int64(w.Run.Position), int64(w.Position), shortHash(string(w.Topic)), milli(w.Deadline), record.AppendWaiter(nil, w))
}

func (r *runTx) Waiter(run, at posthaste.Position) (*posthaste.Waiter, error) {
	if r.removed[at] {
		return nil, store.ErrNotFound
	}
	return row(r.ctx, r, scanWaiter, `
		SELECT position, record FROM posthaste.waiters
		WHERE user_id = $1 AND run = $2 AND position = $3`, r.user, int64(run), int64(at))
}

func (r *runTx) Waiters(topic posthaste.Topic) ([]*posthaste.Waiter, error) {
	all, err := waitersFor(r.ctx, r, r.user, topic)
	return r.left(all), err
}

func (r *runTx) RunWaiters(run posthaste.Position) ([]*posthaste.Waiter, error) {
	all, err := waitersOf(r.ctx, r, r.user, run)
	return r.left(all), err
}

// left drops the waiters that this transaction has ended.
func (r *runTx) left(all []*posthaste.Waiter) []*posthaste.Waiter {
	return slices.DeleteFunc(all, func(w *posthaste.Waiter) bool { return r.removed[w.Position] })
}

func (r *runTx) EndWait(w *posthaste.Waiter) {
	r.removed[w.Position] = true
	r.stageExec(`DELETE FROM posthaste.waiters WHERE user_id = $1 AND run = $2 AND position = $3`,
		r.user, int64(w.Run.Position), int64(w.Position))
}

func (r *runTx) BufferEvent(run posthaste.Position, eventID string, body []byte) {
	r.stageExec(`
		INSERT INTO posthaste.run_events (user_id, run, position, event_id, body) VALUES ($1, $2, $3, $4, $5)`,
		r.user, int64(run), int64(r.NextPosition()), shortHash(eventID), body)
}

type keptEvent struct {
	at   posthaste.Position
	body []byte
}

func (r *runTx) TakeEvent(run posthaste.Position, eventID string) (body []byte, ok bool, err error) {
	buffered, err := rows(r.ctx, r, func(cr pgx.CollectableRow) (keptEvent, error) {
		var at int64
		var body []byte
		err := cr.Scan(&at, &body)
		return keptEvent{posthaste.Position(at), body}, err
	}, `
		SELECT position, body FROM posthaste.run_events
		WHERE user_id = $1 AND run = $2 AND event_id = $3 ORDER BY position`, r.user, int64(run), shortHash(eventID))
	first := slices.IndexFunc(buffered, func(e keptEvent) bool { return !r.removed[e.at] })
	if err != nil || first < 0 {
		return nil, false, err
	}
	at := buffered[first].at
	r.removed[at] = true
	r.stageExec(`DELETE FROM posthaste.run_events WHERE user_id = $1 AND run = $2 AND position = $3`, r.user, int64(run), int64(at))
	return buffered[first].body, true, nil
}

func (r *runTx) DropEvents(run posthaste.Position) error {
	r.stageExec(`DELETE FROM posthaste.run_events WHERE user_id = $1 AND run = $2`, r.user, int64(run))
	return nil
}

func (r *runTx) MoveEvents(from, to posthaste.Position) error {
	r.stageExec(`UPDATE posthaste.run_events SET run = $3 WHERE user_id = $1 AND run = $2`, r.user, int64(from), int64(to))
	return nil
}
