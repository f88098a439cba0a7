package store

import (
	"context"
	"time"

	"posthaste"
)

// Queues, URL groups, schedules and flow-control keys are changed by a function called within the
// transaction. It gets the stored value, or one with nothing but the name, and its result is
// stored. If it returns an error, nothing changes and that error is returned. The backend sets
// CreatedAt and UpdatedAt.

// Queues stores queues. Enqueueing a message creates its queue with posthaste.DefaultParallelism.
type Queues interface {
	// UpdateQueue changes or creates a queue. The change applies at once to waiting messages.
	UpdateQueue(ctx context.Context, now time.Time, user, name string, change func(*posthaste.Queue) error) error

	// Queue returns a queue, or ErrNotFound.
	Queue(ctx context.Context, user, name string) (QueueStatus, error)

	// Queues returns the queues whose names follow after, in order.
	Queues(ctx context.Context, user, after string) (List[QueueStatus], error)

	// QueueNames returns the names of all queues of a user, in order, without reading their
	// messages.
	QueueNames(ctx context.Context, user string) ([]string, error)

	// DeleteQueue removes a queue and cancels its messages; a claimed one may still be delivered,
	// but is not retried. Messages of runs, and messages enqueued meanwhile, are delivered one
	// after another without the queue. A long queue takes several commits; the last one removes
	// it. Deleting an unknown queue is no error.
	DeleteQueue(ctx context.Context, now time.Time, user, name string) error
}

// QueueStatus is a queue and the number of its messages that have not ended.
type QueueStatus struct {
	posthaste.Queue
	Lag int
}

// URLGroups stores URL groups.
type URLGroups interface {
	// UpdateURLGroup changes or creates a group, and removes one without endpoints.
	UpdateURLGroup(ctx context.Context, now time.Time, user, name string, change func(*posthaste.URLGroup) error) error

	// URLGroup returns a group, or ErrNotFound.
	URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error)

	// URLGroups returns the groups whose names follow after, in order.
	URLGroups(ctx context.Context, user, after string) (List[*posthaste.URLGroup], error)

	// DeleteURLGroup removes a group, but not its messages. Deleting an unknown group is no
	// error.
	DeleteURLGroup(ctx context.Context, user, name string) error
}

// Schedules stores schedules and fires each tick once.
type Schedules interface {
	// UpdateSchedule changes or creates a schedule. It is due at NextAt, unless that is zero or
	// it is paused.
	UpdateSchedule(ctx context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error

	// Schedule returns a schedule, or ErrNotFound.
	Schedule(ctx context.Context, user, id string) (*posthaste.Schedule, error)

	// Schedules returns the schedules whose ids follow after, in order.
	Schedules(ctx context.Context, user, after string) (List[*posthaste.Schedule], error)

	// DeleteSchedule removes a schedule, but not its messages. Deleting an unknown schedule is no
	// error.
	DeleteSchedule(ctx context.Context, user, id string) error

	// DueSchedules returns up to limit due schedules of all users except some, earliest first,
	// and when the next other one is due (zero: none). Unreadable ones are returned as an error
	// together with the readable ones.
	DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error)

	// Tick accepts the messages of a tick and replaces the schedule, as read in before, by after,
	// in one commit. If the stored schedule has changed since or is not due, it returns
	// ErrConflict and changes nothing.
	Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error
}

// FlowKeys stores flow-control keys. The first message that names a key creates it; the latest
// sets its limits. Each message and each change counts as a use (posthaste.FlowKey.Use).
type FlowKeys interface {
	// UpdateFlowKey changes or creates a key. The change applies at once to waiting messages.
	UpdateFlowKey(ctx context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error

	// FlowKey returns a key, or ErrNotFound.
	FlowKey(ctx context.Context, now time.Time, user, key string) (FlowStatus, error)

	// FlowKeys returns the keys that contain the text and follow after, in order.
	FlowKeys(ctx context.Context, now time.Time, user, contains, after string) (List[FlowStatus], error)

	// DeleteFlowKey removes a key with its pins, pause and counters, or returns ErrNotFound.
	// While messages that have not ended name the key, it returns the error of
	// RefuseDeleteFlowKey, because their limits would be lifted.
	DeleteFlowKey(ctx context.Context, user, key string) error
}

// RefuseDeleteFlowKey returns an Error with CodeConflict if messages that have not ended name the
// key.
func RefuseDeleteFlowKey(key string, messages int) error {
	if messages == 0 {
		return nil
	}
	return posthaste.Errorf(posthaste.CodeConflict,
		"the flow-control key %.100q is not deleted: messages under it that wait or are in flight: %d; cancel them or wait for their end", key, messages)
}

// FlowStatus is a key and its messages.
type FlowStatus struct {
	posthaste.FlowKey
	InFlight int // attempts
	Waiting  int // due and not in flight; a lower bound if there are very many
}
