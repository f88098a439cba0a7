package store

import (
	"context"
	"time"

	"posthaste"
)

// The resources of a user that are not messages: queues, URL groups, schedules,
// flow-control keys. Each is changed by a function that runs inside the
// transaction: it gets the present value, or one that holds nothing but its name
// when there is none, and what it leaves there is stored. If it returns an error
// nothing changes, and the error is returned as it is. CreatedAt, and UpdatedAt
// where there is one, are set by the backend.

// Queues keeps queues. A queue that a message is enqueued to comes into being
// with posthaste.DefaultParallelism.
type Queues interface {
	// UpdateQueue changes a queue or makes it. The change takes effect at once
	// on what waits.
	UpdateQueue(ctx context.Context, now time.Time, user, name string, change func(*posthaste.Queue) error) error

	// Queue returns a queue, or ErrNotFound.
	Queue(ctx context.Context, user, name string) (QueueStatus, error)

	// Queues returns the queues of a user whose names come after one, by name.
	Queues(ctx context.Context, user, after string) (List[QueueStatus], error)

	// QueueNames returns the names of all queues of a user, in order. It reads
	// nothing of what waits in them.
	QueueNames(ctx context.Context, user string) ([]string, error)

	// DeleteQueue removes a queue and cancels what waits in it; a claimed message
	// may still be delivered, but is not retried. Messages of runs, which end with
	// their run, go on one after another without the queue, and so may what is
	// enqueued meanwhile. A long queue takes several commits, of which the last
	// removes it. Deleting a queue that is not there is no error.
	DeleteQueue(ctx context.Context, now time.Time, user, name string) error
}

// QueueStatus is a queue and how many messages in it have not ended.
type QueueStatus struct {
	posthaste.Queue
	Lag int
}

// URLGroups keeps URL groups.
type URLGroups interface {
	// UpdateURLGroup changes a group or makes it; one that is left without
	// endpoints is removed.
	UpdateURLGroup(ctx context.Context, now time.Time, user, name string, change func(*posthaste.URLGroup) error) error

	// URLGroup returns a group, or ErrNotFound.
	URLGroup(ctx context.Context, user, name string) (*posthaste.URLGroup, error)

	// URLGroups returns the groups of a user whose names come after one, by name.
	URLGroups(ctx context.Context, user, after string) (List[*posthaste.URLGroup], error)

	// DeleteURLGroup removes a group. Messages made of it are not touched, and
	// deleting a group that is not there is no error.
	DeleteURLGroup(ctx context.Context, user, name string) error
}

// Schedules keeps schedules and fires each tick once.
type Schedules interface {
	// UpdateSchedule changes a schedule or makes it. It is due at its NextAt,
	// and never while that is zero or the schedule is paused.
	UpdateSchedule(ctx context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error

	// Schedule returns a schedule, or ErrNotFound.
	Schedule(ctx context.Context, user, id string) (*posthaste.Schedule, error)

	// Schedules returns the schedules of a user whose ids come after one, by id.
	Schedules(ctx context.Context, user, after string) (List[*posthaste.Schedule], error)

	// DeleteSchedule removes a schedule. Messages it made are not touched, and
	// deleting one that is not there is no error.
	DeleteSchedule(ctx context.Context, user, id string) error

	// DueSchedules returns up to limit schedules whose time has come, earliest
	// first, and when the next other one is due (zero: none). They are those of all
	// users but some. What is due and cannot be read is told by an error beside them.
	DueSchedules(ctx context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error)

	// Tick accepts the messages of a tick and replaces the schedule by what it is
	// after the tick, in one commit. before is the schedule that the tick was made of,
	// as it was read. Tick returns ErrConflict, and changes nothing, if the stored
	// schedule has changed since, or is not due: so it never undoes a change.
	Tick(ctx context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error
}

// FlowKeys keeps flow-control keys. A key comes into being with the first message
// that names it, and follows the limits of the latest. Each message and each change that
// names the key is a use of it (posthaste.FlowKey.Use).
type FlowKeys interface {
	// UpdateFlowKey changes a key or makes it. The change takes effect at once
	// on what waits.
	UpdateFlowKey(ctx context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error

	// FlowKey returns a key, or ErrNotFound.
	FlowKey(ctx context.Context, now time.Time, user, key string) (FlowStatus, error)

	// FlowKeys returns the keys of a user that contain the text and come after one, in
	// order.
	FlowKeys(ctx context.Context, now time.Time, user, contains, after string) (List[FlowStatus], error)

	// DeleteFlowKey removes a key with its pins, its pause and its counters, or returns
	// ErrNotFound. If messages that have not ended name the key, nothing changes, and it
	// returns what RefuseDeleteFlowKey returns: their limits would be lifted.
	DeleteFlowKey(ctx context.Context, user, key string) error
}

// RefuseDeleteFlowKey returns an Error with CodeConflict if there are messages that have not
// ended under a key that is to be removed.
func RefuseDeleteFlowKey(key string, messages int) error {
	if messages == 0 {
		return nil
	}
	return posthaste.Errorf(posthaste.CodeConflict,
		"the flow-control key %.100q is not deleted: messages under it that wait or are in flight: %d; cancel them or wait for their end", key, messages)
}

// FlowStatus is a key and what happens under it now.
type FlowStatus struct {
	posthaste.FlowKey
	InFlight int // attempts
	Waiting  int // messages that are due and not in flight; not all, if there are very many
}
