package model

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// kind is what users have of a kind, by name or id. What it returns is a copy.
type kind[T any] struct {
	all  map[name]*T
	copy func(*T) *T
}

func kindOf[T any](copied func(*T) *T) kind[T] { return kind[T]{map[name]*T{}, copied} }

func (k kind[T]) get(id name) (*T, error) {
	if k.all[id] == nil {
		return nil, store.ErrNotFound
	}
	return k.copy(k.all[id]), nil
}

// list returns what a user has, by name.
func (k kind[T]) list(user string) []*T {
	var names []name
	for n := range k.all {
		if n.user == user {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b name) int { return cmp.Compare(a.name, b.name) })
	values := make([]*T, len(names))
	for i, n := range names {
		values[i] = k.copy(k.all[n])
	}
	return values
}

// update changes a copy of what is there, or of a new one, and keeps it.
func (k kind[T]) update(id name, fresh T, change func(*T) error, finish func(*T)) error {
	value := &fresh
	if old := k.all[id]; old != nil {
		value = k.copy(old)
	}
	if err := change(value); err != nil {
		return err
	}
	finish(value)
	k.all[id] = value
	return nil
}

// partOf returns what of a list comes after a name.
func partOf[T any](all []T, after string, name func(T) string, size func(T) int) (part store.List[T]) {
	room := store.NewPageBudget(0)
	for _, value := range all {
		if name(value) <= after && after != "" {
			continue
		}
		if !room.Take(size(value)) {
			part.Next = name(part.Items[len(part.Items)-1])
			break
		}
		part.Items = append(part.Items, value)
	}
	return part
}

// setIfZero sets a time of creation.
func setIfZero(at *time.Time, now time.Time) {
	if at.IsZero() {
		*at = now
	}
}

// UpdateQueue implements store.Store.
func (m *Model) UpdateQueue(_ context.Context, now time.Time, user, queue string, change func(*posthaste.Queue) error) error {
	return m.change(func() error {
		return m.queues.update(name{user, queue}, posthaste.Queue{Name: queue}, change, func(q *posthaste.Queue) {
			q.UpdatedAt = now
			setIfZero(&q.CreatedAt, now)
		})
	})
}

// Queue implements store.Store.
func (m *Model) Queue(_ context.Context, user, queue string) (store.QueueStatus, error) {
	return ask(m, func() (store.QueueStatus, error) {
		q, err := m.queues.get(name{user, queue})
		if err != nil {
			return store.QueueStatus{}, err
		}
		return m.queueStatus(user, q), nil
	})
}

func (m *Model) queueStatus(user string, q *posthaste.Queue) store.QueueStatus {
	status := store.QueueStatus{Queue: *q}
	for _, l := range m.lives {
		if l.message.User == user && l.message.Queue == q.Name && !l.state.Terminal() {
			status.Lag++
		}
	}
	return status
}

// QueueNames implements store.Store.
func (m *Model) QueueNames(_ context.Context, user string) ([]string, error) {
	return ask(m, func() (names []string, err error) {
		for _, q := range m.queues.list(user) {
			names = append(names, q.Name)
		}
		return names, nil
	})
}

// Queues implements store.Store.
func (m *Model) Queues(_ context.Context, user, after string) (store.List[store.QueueStatus], error) {
	return ask(m, func() (store.List[store.QueueStatus], error) {
		var all []store.QueueStatus
		for _, q := range m.queues.list(user) {
			all = append(all, m.queueStatus(user, q))
		}
		return partOf(all, after, func(q store.QueueStatus) string { return q.Name }, store.QueueSize), nil
	})
}

// DeleteQueue implements store.Store.
func (m *Model) DeleteQueue(_ context.Context, now time.Time, user, queue string) error {
	return m.change(func() error {
		for _, l := range m.lives {
			if l.message.User == user && l.message.Queue == queue && l.message.Run == nil {
				m.cancel(now, l)
			}
		}
		delete(m.queues.all, name{user, queue})
		return nil
	})
}

func copyGroup(g *posthaste.URLGroup) *posthaste.URLGroup {
	c := *g
	c.Endpoints, c.Headers = slices.Clone(g.Endpoints), g.Headers.Clone()
	return &c
}

// UpdateURLGroup implements store.Store.
func (m *Model) UpdateURLGroup(_ context.Context, now time.Time, user, group string, change func(*posthaste.URLGroup) error) error {
	return m.do(func() error {
		id := name{user, group}
		err := m.groups.update(id, posthaste.URLGroup{Name: group}, change, func(g *posthaste.URLGroup) {
			g.UpdatedAt = now
			setIfZero(&g.CreatedAt, now)
		})
		if err == nil && len(m.groups.all[id].Endpoints) == 0 {
			delete(m.groups.all, id)
		}
		return err
	})
}

// URLGroup implements store.Store.
func (m *Model) URLGroup(_ context.Context, user, group string) (*posthaste.URLGroup, error) {
	return ask(m, func() (*posthaste.URLGroup, error) { return m.groups.get(name{user, group}) })
}

// URLGroups implements store.Store.
func (m *Model) URLGroups(_ context.Context, user, after string) (store.List[*posthaste.URLGroup], error) {
	return ask(m, func() (store.List[*posthaste.URLGroup], error) {
		return partOf(m.groups.list(user), after, func(g *posthaste.URLGroup) string { return g.Name }, store.URLGroupSize), nil
	})
}

// DeleteURLGroup implements store.Store.
func (m *Model) DeleteURLGroup(_ context.Context, user, group string) error {
	return m.do(func() error {
		delete(m.groups.all, name{user, group})
		return nil
	})
}

// UpdateFlowKey implements store.Store.
func (m *Model) UpdateFlowKey(_ context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error {
	return m.change(func() error {
		return m.flowKeys.update(name{user, key}, posthaste.FlowKey{Key: key}, change, func(k *posthaste.FlowKey) {
			setIfZero(&k.CreatedAt, now)
			k.Use(now)
		})
	})
}

// DeleteFlowKey implements store.Store.
func (m *Model) DeleteFlowKey(_ context.Context, user, key string) error {
	return m.do(func() error {
		id := name{user, key}
		if m.flowKeys.all[id] == nil {
			return store.ErrNotFound
		}
		if err := store.RefuseDeleteFlowKey(key, m.under(id)); err != nil {
			return err
		}
		delete(m.flowKeys.all, id)
		return nil
	})
}

// under counts the messages under a flow-control key that have not ended.
func (m *Model) under(key name) (n int) {
	for _, l := range m.lives {
		if l.flowKey() == key && !l.state.Terminal() {
			n++
		}
	}
	return n
}

// FlowKey implements store.Store.
func (m *Model) FlowKey(_ context.Context, now time.Time, user, key string) (store.FlowStatus, error) {
	return ask(m, func() (store.FlowStatus, error) {
		k, err := m.flowKeys.get(name{user, key})
		if err != nil {
			return store.FlowStatus{}, err
		}
		return m.flowStatus(now, user, k), nil
	})
}

func (m *Model) flowStatus(now time.Time, user string, k *posthaste.FlowKey) store.FlowStatus {
	id := name{user, k.Key}
	status := store.FlowStatus{FlowKey: *k, InFlight: m.attempts(id)}
	window := windowOf(k).Current(k.FlowLimit, now)
	status.WindowStartedAt, status.WindowCount = window.StartedAt, window.Count
	for _, l := range m.lives {
		if l.waits() && !l.dueAt.After(now) && l.flowKey() == id {
			status.Waiting++
		}
	}
	return status
}

// FlowKeys implements store.Store.
func (m *Model) FlowKeys(_ context.Context, now time.Time, user, contains, after string) (store.List[store.FlowStatus], error) {
	return ask(m, func() (store.List[store.FlowStatus], error) {
		var all []store.FlowStatus
		for _, k := range m.flowKeys.list(user) {
			if strings.Contains(k.Key, contains) {
				all = append(all, m.flowStatus(now, user, k))
			}
		}
		return partOf(all, after, func(k store.FlowStatus) string { return k.Key }, store.FlowKeySize), nil
	})
}

func copySchedule(s *posthaste.Schedule) *posthaste.Schedule {
	c := *s
	c.LastMessages = slices.Clone(s.LastMessages)
	return &c
}

// UpdateSchedule implements store.Store.
func (m *Model) UpdateSchedule(_ context.Context, now time.Time, user, id string, change func(*posthaste.Schedule) error) error {
	return m.change(func() error {
		return m.schedules.update(name{user, id}, posthaste.Schedule{ID: id, User: user}, change,
			func(s *posthaste.Schedule) { setIfZero(&s.CreatedAt, now) })
	})
}

// Schedule implements store.Store.
func (m *Model) Schedule(_ context.Context, user, id string) (*posthaste.Schedule, error) {
	return ask(m, func() (*posthaste.Schedule, error) { return m.schedules.get(name{user, id}) })
}

// Schedules implements store.Store.
func (m *Model) Schedules(_ context.Context, user, after string) (store.List[*posthaste.Schedule], error) {
	return ask(m, func() (store.List[*posthaste.Schedule], error) {
		return partOf(m.schedules.list(user), after, func(s *posthaste.Schedule) string { return s.ID }, store.ScheduleSize), nil
	})
}

// DeleteSchedule implements store.Store.
func (m *Model) DeleteSchedule(_ context.Context, user, id string) error {
	return m.do(func() error {
		delete(m.schedules.all, name{user, id})
		return nil
	})
}

// DueSchedules implements store.Store.
func (m *Model) DueSchedules(_ context.Context, now time.Time, limit int, except ...string) (due []*posthaste.Schedule, next time.Time, err error) {
	err = m.do(func() error {
		for _, s := range m.schedules.all {
			if !s.NextAt.IsZero() && !s.Paused && !slices.Contains(except, s.User) {
				due = append(due, copySchedule(s))
			}
		}
		slices.SortFunc(due, func(a, b *posthaste.Schedule) int {
			return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.User, b.User), cmp.Compare(a.ID, b.ID))
		})
		for i, s := range due {
			if i == limit || s.NextAt.After(now) {
				due, next = due[:i], s.NextAt
				break
			}
		}
		return nil
	})
	return due, next, err
}

// Tick implements store.Store.
func (m *Model) Tick(_ context.Context, now time.Time, before, after *posthaste.Schedule, messages []*posthaste.Message) error {
	return m.change(func() error {
		id := name{after.User, after.ID}
		stored := m.schedules.all[id]
		if stored == nil || stored.Paused || stored.NextAt.IsZero() || !stored.Equal(before) {
			return store.ErrConflict
		}
		m.accept(now, messages)
		m.schedules.all[id] = copySchedule(after)
		return nil
	})
}

func copyAction(a *posthaste.BulkAction) *posthaste.BulkAction {
	c := *a
	c.Failures = slices.Clone(a.Failures)
	return &c
}

// PutAction implements store.Store.
func (m *Model) PutAction(_ context.Context, action *posthaste.BulkAction) error {
	return m.do(func() error {
		m.actions.all[name{action.User, action.ID}] = copyAction(action)
		return nil
	})
}

// Action implements store.Store.
func (m *Model) Action(_ context.Context, user, id string) (*posthaste.BulkAction, error) {
	return ask(m, func() (*posthaste.BulkAction, error) { return m.actions.get(name{user, id}) })
}

// Actions implements store.Store.
func (m *Model) Actions(_ context.Context, user string) ([]*posthaste.BulkAction, error) {
	return ask(m, func() ([]*posthaste.BulkAction, error) { return m.actions.list(user), nil })
}

// UnfinishedActions implements store.Store.
func (m *Model) UnfinishedActions(context.Context) ([]*posthaste.BulkAction, error) {
	return ask(m, func() (all []*posthaste.BulkAction, err error) {
		for _, a := range m.actions.all {
			if !a.Finished() {
				all = append(all, copyAction(a))
			}
		}
		return all, nil
	})
}

// UpdateAction implements store.Store.
func (m *Model) UpdateAction(_ context.Context, user, id string, change func(*posthaste.BulkAction)) error {
	return m.do(func() error {
		action := m.actions.all[name{user, id}]
		if action == nil {
			return store.ErrNotFound
		}
		change(action)
		return nil
	})
}

// DeleteActions implements store.Store.
func (m *Model) DeleteActions(_ context.Context, completedBefore time.Time) error {
	return m.do(func() error {
		for id, a := range m.actions.all {
			if a.Finished() && a.CompletedAt.Before(completedBefore) {
				delete(m.actions.all, id)
			}
		}
		return nil
	})
}

// checkStep refuses a step of an action that is not there or has ended.
func (m *Model) checkStep(user string, step *store.Step) error {
	if step == nil {
		return nil
	}
	action := m.actions.all[name{user, step.ActionID}]
	if action == nil {
		return store.ErrNotFound
	}
	return step.Check(action)
}

// advance counts a change as part of a user's bulk action, if it is of one.
func (m *Model) advance(user string, step *store.Step, processed int, failures []posthaste.ActionFailure) {
	if step != nil {
		step.Advance(m.actions.all[name{user, step.ActionID}], processed, failures)
	}
}

// Secret implements store.Store.
func (m *Model) Secret(_ context.Context, key string) (string, error) {
	return ask(m, func() (string, error) {
		value, exists := m.secrets[key]
		if !exists {
			return "", store.ErrNotFound
		}
		return value, nil
	})
}

// PutSecretIfAbsent implements store.Store.
func (m *Model) PutSecretIfAbsent(_ context.Context, key, value string) (string, error) {
	return ask(m, func() (string, error) {
		if _, exists := m.secrets[key]; !exists {
			m.secrets[key] = value
		}
		return m.secrets[key], nil
	})
}

// CompareAndSwapSecret implements store.Store.
func (m *Model) CompareAndSwapSecret(_ context.Context, key, old, value string) error {
	return m.do(func() error {
		if present, exists := m.secrets[key]; !exists || present != old {
			return store.ErrConflict
		}
		m.secrets[key] = value
		return nil
	})
}
