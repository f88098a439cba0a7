package engine

import (
	"context"
	"errors"
	"slices"

	"posthaste"
	"posthaste/internal/store"
)

// QueueChange is what is to change about a queue.
type QueueChange struct {
	Parallelism int   // 0: as it is, or posthaste.DefaultParallelism for a new one
	Paused      *bool // nil: as it is
}

// PutQueue changes a queue or makes it. It returns an Error with CodeLimit above
// the limits for queues and parallelism.
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

// checkQueueCount refuses a queue too many. One that is there may always change.
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

// PauseQueue stops or resumes a queue, or returns store.ErrNotFound. A paused
// queue accepts messages and starts none.
func (e *Engine) PauseQueue(ctx context.Context, user, name string, paused bool) error {
	return e.options.Store.UpdateQueue(ctx, e.now(), user, name, func(q *posthaste.Queue) error {
		if q.CreatedAt.IsZero() {
			return store.ErrNotFound
		}
		q.Paused = paused
		return nil
	})
}

// Queue returns a queue, or store.ErrNotFound.
func (e *Engine) Queue(ctx context.Context, user, name string) (store.QueueStatus, error) {
	return e.options.Store.Queue(ctx, user, name)
}

// Queues returns queues of a user, a part at a time: see store.Queues.
func (e *Engine) Queues(ctx context.Context, user, after string) (store.List[store.QueueStatus], error) {
	return e.options.Store.Queues(ctx, user, after)
}

// DeleteQueue removes a queue and cancels what waits in it, but for messages of runs.
func (e *Engine) DeleteQueue(ctx context.Context, user, name string) error {
	return e.options.Store.DeleteQueue(ctx, e.now(), user, name)
}

// AddEndpoints adds endpoints to a URL group or changes those it names, and makes
// the group if need be.
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

// RemoveEndpoints takes endpoints out of a URL group, which is removed with its
// last. It returns store.ErrNotFound for an unknown group.
func (e *Engine) RemoveEndpoints(ctx context.Context, user, name string, endpoints []posthaste.Endpoint) error {
	return e.updateURLGroup(ctx, user, name, func(g *posthaste.URLGroup) {
		for _, endpoint := range endpoints {
			g.Remove(endpoint)
		}
	})
}

// SetGroupHeaders replaces the default headers of a URL group, or returns
// store.ErrNotFound.
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

// URLGroup returns a group, or store.ErrNotFound.
func (e *Engine) URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error) {
	return e.options.Store.URLGroup(ctx, user, name)
}

// URLGroups returns groups of a user, a part at a time: see store.URLGroups.
func (e *Engine) URLGroups(ctx context.Context, user, after string) (store.List[*posthaste.URLGroup], error) {
	return e.options.Store.URLGroups(ctx, user, after)
}

// DeleteURLGroup removes a group; one that is not there is no error.
func (e *Engine) DeleteURLGroup(ctx context.Context, user, name string) error {
	return e.options.Store.DeleteURLGroup(ctx, user, name)
}

// FlowKey returns a flow-control key, or store.ErrNotFound.
func (e *Engine) FlowKey(ctx context.Context, user, key string) (store.FlowStatus, error) {
	return e.options.Store.FlowKey(ctx, e.now(), user, key)
}

// FlowKeys returns flow-control keys of a user that contain the text, a part at a time: see
// store.FlowKeys.
func (e *Engine) FlowKeys(ctx context.Context, user, contains, after string) (store.List[store.FlowStatus], error) {
	return e.options.Store.FlowKeys(ctx, e.now(), user, contains, after)
}

// Pin holds limits of a key. Nil leaves a limit as it is. A pinned rate begins a
// new window.
type Pin struct {
	Parallelism *int
	Rate        *posthaste.FlowLimit // its Rate and Period
}

// PinFlowKey pins limits of a key, and makes the key if need be.
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

// UnpinFlowKey lets limits of a key follow its messages again. They stay as they
// are until the next message. An unknown key is no error.
func (e *Engine) UnpinFlowKey(ctx context.Context, user, key string, parallelism, rate bool) error {
	return e.updateFlowKey(ctx, user, key, func(k *posthaste.FlowKey) {
		k.PinnedParallelism = k.PinnedParallelism && !parallelism
		k.PinnedRate = k.PinnedRate && !rate
	})
}

// PauseFlowKey stops what has the key, and makes the key if need be.
func (e *Engine) PauseFlowKey(ctx context.Context, user, key string) error {
	return e.options.Store.UpdateFlowKey(ctx, e.now(), user, key, func(k *posthaste.FlowKey) error {
		k.Paused = true
		return nil
	})
}

// ResumeFlowKey lets what has the key go on. An unknown key is no error.
func (e *Engine) ResumeFlowKey(ctx context.Context, user, key string) error {
	return e.updateFlowKey(ctx, user, key, func(k *posthaste.FlowKey) { k.Paused = false })
}

// ResetFlowRate begins a new window of the key's rate. An unknown key is no error.
func (e *Engine) ResetFlowRate(ctx context.Context, user, key string) error {
	return e.updateFlowKey(ctx, user, key, func(k *posthaste.FlowKey) { k.ResetRate(e.now()) })
}

// DeleteFlowKey removes a key, or returns store.ErrNotFound. A key that messages need is not
// removed: see store.FlowKeys.
func (e *Engine) DeleteFlowKey(ctx context.Context, user, key string) error {
	return e.options.Store.DeleteFlowKey(ctx, user, key)
}

// updateFlowKey changes a key if there is one.
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

// GlobalParallelism returns how many attempts of a user are in flight, and how
// many there may be at once of all users.
func (e *Engine) GlobalParallelism(ctx context.Context, user string) (inFlight, most int, err error) {
	inFlight, err = e.options.Store.InFlight(ctx, user)
	return inFlight, e.options.Concurrency, err
}
