package engine

import (
	"context"
	"errors"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// QueueChange is a change of a queue.
type QueueChange struct {
	Parallelism int   // 0: unchanged; posthaste.DefaultParallelism for a new one
	Paused      *bool // nil: unchanged
}

// PutQueue changes or creates a queue. It returns an Error with CodeLimit above a limit.
func (e *Engine) PutQueue(ctx context.Context, user, name string, change QueueChange) error {
	limits := e.options.Limits
	if limits.Parallelism > 0 && change.Parallelism > limits.Parallelism {
		return posthaste.Errorf(posthaste.CodeLimit, "parallelism %d is over the limit of %d", change.Parallelism, limits.Parallelism)
	}
	if err := e.checkQueueCount(ctx, user, name); err != nil {
		return err
	}
	return e.options.Store.UpdateQueue(ctx, e.now(), user, name, func(q *posthaste.Queue) error {
		switch {
		case change.Parallelism > 0:
			q.Parallelism = change.Parallelism
		case q.Parallelism == 0:
			q.Parallelism = posthaste.DefaultParallelism
		}
		if change.Paused != nil {
			q.Paused = *change.Paused
		}
		return nil
	})
}

// checkQueueCount rejects a new queue above the limit.
func (e *Engine) checkQueueCount(ctx context.Context, user, name string) error {
	most := e.options.Limits.Queues
	if most == 0 {
		return nil
	}
	all, err := e.options.Store.QueueNames(ctx, user)
	if err != nil || len(all) < most || slices.Contains(all, name) {
		return err
	}
	return posthaste.Errorf(posthaste.CodeLimit, "there are %d queues already, the limit is %d", len(all), most)
}

// PauseQueue pauses or resumes a queue, or returns store.ErrNotFound. A paused queue still
// accepts messages.
func (e *Engine) PauseQueue(ctx context.Context, user, name string, paused bool) error {
	return e.options.Store.UpdateQueue(ctx, e.now(), user, name, func(q *posthaste.Queue) error {
		if q.CreatedAt.IsZero() {
			return store.ErrNotFound
		}
		q.Paused = paused
		return nil
	})
}

// DeleteQueue removes a queue and cancels its messages, except those of runs.
func (e *Engine) DeleteQueue(ctx context.Context, user, name string) error {
	return e.options.Store.DeleteQueue(ctx, e.now(), user, name)
}

// AddEndpoints adds or changes endpoints of a URL group, creating the group if needed.
func (e *Engine) AddEndpoints(ctx context.Context, user, name string, endpoints []posthaste.Endpoint) error {
	return e.options.Store.UpdateURLGroup(ctx, e.now(), user, name, func(g *posthaste.URLGroup) error {
		for _, endpoint := range endpoints {
			if err := g.Upsert(endpoint); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveEndpoints removes endpoints of a URL group, and the group with its last one. It returns
// store.ErrNotFound for an unknown group.
func (e *Engine) RemoveEndpoints(ctx context.Context, user, name string, endpoints []posthaste.Endpoint) error {
	return e.updateURLGroup(ctx, user, name, func(g *posthaste.URLGroup) {
		for _, endpoint := range endpoints {
			g.Remove(endpoint)
		}
	})
}

// SetGroupHeaders replaces the default headers of a URL group, or returns store.ErrNotFound.
func (e *Engine) SetGroupHeaders(ctx context.Context, user, name string, headers map[string][]string) error {
	return e.updateURLGroup(ctx, user, name, func(g *posthaste.URLGroup) { g.Headers = headers })
}

func (e *Engine) updateURLGroup(ctx context.Context, user, name string, change func(*posthaste.URLGroup)) error {
	return e.options.Store.UpdateURLGroup(ctx, e.now(), user, name, func(g *posthaste.URLGroup) error {
		if g.CreatedAt.IsZero() {
			return store.ErrNotFound
		}
		change(g)
		return nil
	})
}

// FlowKey returns a flow-control key, or store.ErrNotFound.
func (e *Engine) FlowKey(ctx context.Context, user, key string) (store.FlowStatus, error) {
	return e.options.Store.FlowKey(ctx, e.now(), user, key)
}

// FlowKeys returns a part of the user's flow-control keys that contain the text, see
// store.Store.
func (e *Engine) FlowKeys(ctx context.Context, user, contains, after string) (store.List[store.FlowStatus], error) {
	return e.options.Store.FlowKeys(ctx, e.now(), user, contains, after)
}

// Pin has the limits to pin; nil leaves one unchanged. Pinning a rate starts a new window.
type Pin struct {
	Parallelism *int
	Rate        *posthaste.FlowLimit // Rate and Period only
}

// PinFlowKey pins limits of a key, creating it if needed.
func (e *Engine) PinFlowKey(ctx context.Context, user, key string, pin Pin) error {
	now := e.now()
	return e.options.Store.UpdateFlowKey(ctx, now, user, key, func(k *posthaste.FlowKey) error {
		if pin.Parallelism != nil {
			k.Parallelism, k.PinnedParallelism = *pin.Parallelism, true
		}
		if pin.Rate != nil {
			k.Rate, k.Period, k.PinnedRate = pin.Rate.Rate, pin.Rate.Period, true
			k.ResetRate(now)
		}
		return nil
	})
}

// UnpinFlowKey lets the next message set the limits of a key again. An unknown key is no error.
func (e *Engine) UnpinFlowKey(ctx context.Context, user, key string, parallelism, rate bool) error {
	return e.updateFlowKey(ctx, user, key, func(k *posthaste.FlowKey) {
		k.PinnedParallelism = k.PinnedParallelism && !parallelism
		k.PinnedRate = k.PinnedRate && !rate
	})
}

// PauseFlowKey pauses a key, creating it if needed.
func (e *Engine) PauseFlowKey(ctx context.Context, user, key string) error {
	return e.options.Store.UpdateFlowKey(ctx, e.now(), user, key, func(k *posthaste.FlowKey) error {
		k.Paused = true
		return nil
	})
}

// ResumeFlowKey resumes a key. An unknown key is no error.
func (e *Engine) ResumeFlowKey(ctx context.Context, user, key string) error {
	return e.updateFlowKey(ctx, user, key, func(k *posthaste.FlowKey) { k.Paused = false })
}

// ResetFlowRate starts a new rate window. An unknown key is no error.
func (e *Engine) ResetFlowRate(ctx context.Context, user, key string) error {
	return e.updateFlowKey(ctx, user, key, func(k *posthaste.FlowKey) { k.ResetRate(e.now()) })
}

// updateFlowKey changes a key if it exists.
func (e *Engine) updateFlowKey(ctx context.Context, user, key string, change func(*posthaste.FlowKey)) error {
	err := e.options.Store.UpdateFlowKey(ctx, e.now(), user, key, func(k *posthaste.FlowKey) error {
		if k.CreatedAt.IsZero() {
			return store.ErrNotFound
		}
		change(k)
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// GlobalParallelism returns a user's attempts in flight, and the maximum of all users together.
func (e *Engine) GlobalParallelism(ctx context.Context, user string) (inFlight, most int, err error) {
	usage, err := e.options.Store.Usage(ctx, user)
	return usage.InFlight, e.options.Concurrency, err
}
