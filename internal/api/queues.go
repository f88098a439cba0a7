package api

import (
	"context"
	"errors"

	"posthaste"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

// Queues manages queues.
type Queues interface {
	PutQueue(ctx context.Context, user, name string, change engine.QueueChange) error
	PauseQueue(ctx context.Context, user, name string, paused bool) error
	Queue(ctx context.Context, user, name string) (store.QueueStatus, error)
	Queues(ctx context.Context, user, after string) (store.List[store.QueueStatus], error)
	// DeleteQueue cancels the queue's messages, and ignores an unknown queue.
	DeleteQueue(ctx context.Context, user, name string) error
}

// queueView is a queue as shown (contract, messages 2.6).
type queueView struct {
	Name        string `json:"name"`
	CreatedAt   int64  `json:"createdAt"` // Unix ms
	UpdatedAt   int64  `json:"updatedAt"` // Unix ms
	Parallelism int    `json:"parallelism"`
	Paused      bool   `json:"paused"`
	Lag         int    `json:"lag"` // messages not ended
}

func newQueueView(q store.QueueStatus) queueView {
	return queueView{
		Name:        q.Name,
		CreatedAt:   q.CreatedAt.UnixMilli(),
		UpdatedAt:   q.UpdatedAt.UnixMilli(),
		Parallelism: q.Parallelism,
		Paused:      q.Paused,
		Lag:         q.Lag,
	}
}

// putQueue creates or changes a queue. Parallelism 0 means none given, as one SDK sends it
// (contract, decision 17).
func (a *api) putQueue(r *request) (answer, error) {
	var body struct {
		QueueName   string `json:"queueName"`
		Parallelism int    `json:"parallelism"`
		Paused      *bool  `json:"paused"`
	}
	if err := r.requireKnown(&body, "queueName, parallelism and paused are accepted"); err != nil {
		return answer{}, err
	}
	if err := posthaste.CheckNewName("queueName", body.QueueName); err != nil {
		return answer{}, err
	}
	if body.Parallelism < 0 {
		return answer{}, posthaste.Invalidf("parallelism %d is not a whole number of at least 1", body.Parallelism)
	}
	change := engine.QueueChange{Parallelism: body.Parallelism, Paused: body.Paused}
	return done, a.options.Engine.PutQueue(r.Context(), r.user, body.QueueName, change)
}

func (a *api) listQueues(r *request) (answer, error) {
	return newList(r, newQueueView, store.QueueSize, func(ctx context.Context, after string) (store.List[store.QueueStatus], error) {
		return a.options.Engine.Queues(ctx, r.user, after)
	})
}

func (a *api) getQueue(r *request, name string) (answer, error) {
	q, err := a.options.Engine.Queue(r.Context(), r.user, name)
	return ok(newQueueView(q)), orNotFound(err, "queue", name)
}

func (a *api) deleteQueue(r *request, name string) (answer, error) {
	return done, a.options.Engine.DeleteQueue(r.Context(), r.user, name)
}

// pauseQueue pauses or resumes a queue.
func (a *api) pauseQueue(paused bool) func(r *request, name string) (answer, error) {
	return func(r *request, name string) (answer, error) {
		return done, orNotFound(a.options.Engine.PauseQueue(r.Context(), r.user, name, paused), "queue", name)
	}
}

// orNotFound replaces store.ErrNotFound by a sentence.
func orNotFound(err error, what, name string) error {
	if errors.Is(err, store.ErrNotFound) {
		return posthaste.Errorf(posthaste.CodeNotFound, "%s %.200q is not known", what, name)
	}
	return err
}

// views returns the views of items, never nil.
func views[T, V any](items []T, newView func(T) V) []V {
	list := make([]V, len(items))
	for i, item := range items {
		list[i] = newView(item)
	}
	return list
}
