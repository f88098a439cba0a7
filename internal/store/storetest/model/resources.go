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

// list returns what a user has of a kind, by name.
func list[T any](all map[name]*T, user string) []*T {
	var names []name
	for n := range all {
		if n.user == user {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b name) int { return cmp.Compare(a.name, b.name) })
	values := make([]*T, len(names))
	for i, n := range names {
		values[i] = all[n]
	}
	return values
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

// UpdateQueue implements store.Queues.
func (m *Model) UpdateQueue(_ context.Context, now time.Time, user, queue string, change func(*posthaste.Queue) error) error {
	return m.change(func() error {
		id := name{user, queue}
		value := posthaste.Queue{Name: queue}
		if old := m.queues[id]; old != nil {
			value = *old
		}
		if err := change(&value); err != nil {
			return err
		}
		if value.UpdatedAt = now; value.CreatedAt.IsZero() {
			value.CreatedAt = now
		}
		m.queues[id] = &value
		return nil
	})
}

// Queue implements store.Queues.
func (m *Model) Queue(_ context.Context, user, queue string) (status store.QueueStatus, err error) {
	err = m.do(func() error {
		q := m.queues[name{user, queue}]
		if q == nil {
			return store.ErrNotFound
		}
		status = m.queueStatus(user, q)
		return nil
	})
	return status, err
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

// QueueNames implements store.Queues.
func (m *Model) QueueNames(_ context.Context, user string) (names []string, err error) {
	err = m.do(func() error {
		for _, q := range list(m.queues, user) {
			names = append(names, q.Name)
		}
		return nil
	})
	return names, err
}

// Queues implements store.Queues.
func (m *Model) Queues(_ context.Context, user, after string) (part store.List[store.QueueStatus], err error) {
	err = m.do(func() error {
		var all []store.QueueStatus
		for _, q := range list(m.queues, user) {
			all = append(all, m.queueStatus(user, q))
		}
		part = partOf(all, after, func(q store.QueueStatus) string { return q.Name }, store.QueueSize)
		return nil
	})
	return part, err
}

// DeleteQueue implements store.Queues.
func (m *Model) DeleteQueue(_ context.Context, now time.Time, user, queue string) error {
	return m.change(func() error {
		for _, l := range m.lives {
			if l.message.User == user && l.message.Queue == queue && l.message.Run == nil {
				m.cancel(now, l)
			}
		}
		delete(m.queues, name{user, queue})
		return nil
	})
}

// UpdateURLGroup implements store.URLGroups.
func (m *Model) UpdateURLGroup(_ context.Context, now time.Time, user, group string, change func(*posthaste.URLGroup) error) error {
	return m.do(func() error {
		id := name{user, group}
		value := posthaste.URLGroup{Name: group}
		if old := m.groups[id]; old != nil {
			value = *copyGroup(old)
		}
		if err := change(&value); err != nil {
			return err
		}
		if value.UpdatedAt = now; value.CreatedAt.IsZero() {
			value.CreatedAt = now
		}
		if m.groups[id] = &value; len(value.Endpoints) == 0 {
			delete(m.groups, id)
		}
		return nil
	})
}

func copyGroup(g *posthaste.URLGroup) *posthaste.URLGroup {
	c := *g
	c.Endpoints, c.Headers = slices.Clone(g.Endpoints), g.Headers.Clone()
	return &c
}

// URLGroup implements store.URLGroups.
func (m *Model) URLGroup(_ context.Context, user, group string) (g *posthaste.URLGroup, err error) {
	err = m.do(func() error {
		stored := m.groups[name{user, group}]
		if stored == nil {
			return store.ErrNotFound
		}
		g = copyGroup(stored)
		return nil
	})
	return g, err
}

// URLGroups implements store.URLGroups.
func (m *Model) URLGroups(_ context.Context, user, after string) (part store.List[*posthaste.URLGroup], err error) {
	err = m.do(func() error {
		var all []*posthaste.URLGroup
		for _, g := range list(m.groups, user) {
			all = append(all, copyGroup(g))
		}
		part = partOf(all, after, func(g *posthaste.URLGroup) string { return g.Name }, store.URLGroupSize)
		return nil
	})
	return part, err
}

// DeleteURLGroup implements store.URLGroups.
func (m *Model) DeleteURLGroup(_ context.Context, user, group string) error {
	return m.do(func() error {
		delete(m.groups, name{user, group})
		return nil
	})
}

// UpdateFlowKey implements store.FlowKeys.
func (m *Model) UpdateFlowKey(_ context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error {
	return m.change(func() error {
		id := name{user, key}
		value := posthaste.FlowKey{Key: key}
		if old := m.flowKeys[id]; old != nil {
			value = *old
		}
		if err := change(&value); err != nil {
			return err
		}
		if value.CreatedAt.IsZero() {
			value.CreatedAt = now
		}
		value.Use(now)
		m.flowKeys[id] = &value
		return nil
	})
}

// DeleteFlowKey implements store.FlowKeys.
func (m *Model) DeleteFlowKey(_ context.Context, user, key string) error {
	return m.do(func() error {
		id := name{user, key}
		if m.flowKeys[id] == nil {
			return store.ErrNotFound
		}
		if err := store.RefuseDeleteFlowKey(key, m.under(id)); err != nil {
			return err
		}
		delete(m.flowKeys, id)
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

// FlowKey implements store.FlowKeys.
func (m *Model) FlowKey(_ context.Context, now time.Time, user, key string) (status store.FlowStatus, err error) {
	err = m.do(func() error {
		k := m.flowKeys[name{user, key}]
		if k == nil {
			return store.ErrNotFound
		}
		status = m.flowStatus(now, user, k)
		return nil
	})
	return status, err
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

// FlowKeys implements store.FlowKeys.
func (m *Model) FlowKeys(_ context.Context, now time.Time, user, contains, after string) (part store.List[store.FlowStatus], err error) {
	err = m.do(func() error {
		var all []store.FlowStatus
		for _, k := range list(m.flowKeys, user) {
			if strings.Contains(k.Key, contains) {
				all = append(all, m.flowStatus(now, user, k))
			}
		}
		part = partOf(all, after, func(k store.FlowStatus) string { return k.Key }, store.FlowKeySize)
		return nil
	})
	return part, err
}
