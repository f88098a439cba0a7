package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// workflows is what the model holds of runs.
type workflows struct {
	executions map[runID]*execution
	waiters    []*waiter   // first come first
	runDLQ     []*dlqEntry // by id
	answers    map[name]answer
}

// runID is the place of a run of a user.
type runID struct {
	user string
	at   posthaste.Position
}

// execution is a run with its list and what was kept for it.
type execution struct {
	run     *posthaste.Run
	entries []posthaste.RunEntry
	memory  map[string]posthaste.MessageID
	events  []keptEvent // first come first
}

// keptEvent is an event that came before its waiter.
type keptEvent struct {
	at   posthaste.Position
	id   string
	body []byte
}

// waiter is a waiter of a user.
type waiter struct {
	posthaste.Waiter
	user string
}

// dlqEntry is an entry of the DLQ of runs.
type dlqEntry struct {
	*posthaste.DeadLetter
	run runID
}

// answer is what was kept for one.
type answer struct {
	at   time.Time
	data []byte
}

// copyRun copies all of a run that may change.
func copyRun(r *posthaste.Run) *posthaste.Run {
	c := *r
	c.Header, c.Labels = r.Header.Clone(), slices.Clone(r.Labels)
	c.Invoker, c.Origin = copyOf(r.Invoker), copyOf(r.Origin)
	c.Result, c.Reported, c.Successor = copyOf(r.Result), copyOf(r.Reported), copyOf(r.Successor)
	return &c
}

// copyOf copies what is pointed to, if there is anything.
func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// Transact implements store.Store.
func (m *Model) Transact(_ context.Context, now time.Time, user string, change func(store.RunTx) error) error {
	return m.change(func() error {
		tx := m.newRunTx(now, user)
		if err := change(tx); err != nil {
			return err
		}
		tx.commit()
		return nil
	})
}

// Run implements store.Store.
func (m *Model) Run(_ context.Context, user string, at posthaste.Position) (*posthaste.Run, error) {
	return ask(m, func() (*posthaste.Run, error) { return m.run(user, at) })
}

// LatestRun implements store.Store.
func (m *Model) LatestRun(_ context.Context, user, id string) (*posthaste.Run, error) {
	return ask(m, func() (*posthaste.Run, error) { return m.run(user, m.latest(user, id)) })
}

// latest returns the place of a user's last run with an id, or 0.
func (m *Model) latest(user, id string) (at posthaste.Position) {
	for other, x := range m.executions {
		if other.user == user && x.run.ID == id {
			at = max(at, other.at)
		}
	}
	return at
}

func (m *Model) run(user string, at posthaste.Position) (*posthaste.Run, error) {
	x := m.executions[runID{user, at}]
	if x == nil {
		return nil, store.ErrNotFound
	}
	return copyRun(x.run), nil
}

// RunEntries implements store.Store.
func (m *Model) RunEntries(_ context.Context, user string, at posthaste.Position, from, count int) ([]posthaste.RunEntry, error) {
	return ask(m, func() ([]posthaste.RunEntry, error) {
		entries := m.entries(user, at, -1)
		entries = entries[min(from, len(entries)):]
		if count >= 0 {
			entries = entries[:min(count, len(entries))]
		}
		return entries, nil
	})
}

func (m *Model) entries(user string, at posthaste.Position, count int) []posthaste.RunEntry {
	x := m.executions[runID{user, at}]
	if x == nil {
		return nil
	}
	if count < 0 || count > len(x.entries) {
		count = len(x.entries)
	}
	return slices.Clone(x.entries[:count])
}

// Runs implements store.Store.
func (m *Model) Runs(_ context.Context, user string, query store.RunQuery) (page store.RunPage, err error) {
	err = m.do(func() error {
		room := store.NewPageBudget(0)
		for _, p := range m.places(user, query) {
			run, err := m.run(user, p.run)
			if err != nil {
				return err
			}
			if p.at < query.Low || p.at > query.High || !query.Filter.MatchesRun(run) {
				continue
			}
			size := store.RunSize(run)
			if p.letter != nil && !query.Bare {
				size += store.DeadLetterSize(p.letter)
			}
			if len(page.Runs) == query.Limit || !room.Take(size) {
				page.More, page.Next = true, p.at
				return nil
			}
			page.Runs = append(page.Runs, run)
			if p.letter != nil && !query.Bare {
				page.DeadLetters = append(page.DeadLetters, p.letter)
			}
		}
		return nil
	})
	return page, err
}

// place is where a query comes upon a run.
type place struct {
	at, run posthaste.Position
	letter  *posthaste.DeadLetter // if the DLQ is asked for
}

// places lists all that a query may come upon, in its order.
func (m *Model) places(user string, query store.RunQuery) (all []place) {
	if query.Failed {
		for _, b := range m.runDLQ {
			if b.run.user == user {
				all = append(all, place{posthaste.Position(b.ID), b.run.at, b.DeadLetter})
			}
		}
	} else {
		for id := range maps.Keys(m.executions) {
			if id.user == user {
				all = append(all, place{at: id.at, run: id.at})
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	if !query.OldestFirst {
		slices.Reverse(all)
	}
	return all
}

// EventWaiters implements store.Store.
func (m *Model) EventWaiters(_ context.Context, user, eventID string) ([]*posthaste.Waiter, error) {
	return ask(m, func() ([]*posthaste.Waiter, error) { return m.waitersFor(user, posthaste.EventTopic(eventID)), nil })
}

// RunWaiters implements store.Store.
func (m *Model) RunWaiters(_ context.Context, user string, at posthaste.Position) ([]*posthaste.Waiter, error) {
	return ask(m, func() ([]*posthaste.Waiter, error) { return m.waitersOf(user, at), nil })
}

// DueWaiters implements store.Store.
func (m *Model) DueWaiters(_ context.Context, now time.Time, limit int, except ...string) (due []store.DueWaiter, next time.Time, err error) {
	err = m.do(func() error {
		waiters := slices.DeleteFunc(slices.Clone(m.waiters), func(w *waiter) bool {
			return w.Deadline.IsZero() || slices.Contains(except, w.user)
		})
		slices.SortStableFunc(waiters, func(a, b *waiter) int { return a.Deadline.Compare(b.Deadline) })
		for _, w := range waiters {
			if len(due) == limit || w.Deadline.After(now) {
				next = w.Deadline
				break
			}
			due = append(due, store.DueWaiter{User: w.user, Run: w.Run.Position, Position: w.Position})
		}
		return nil
	})
	return due, next, err
}

// waitersFor returns copies of a user's waiters for a topic.
func (m *Model) waitersFor(user string, topic posthaste.Topic) []*posthaste.Waiter {
	return m.findWaiters(func(w *waiter) bool { return w.user == user && w.Topic == topic })
}

// waitersOf returns copies of the waiters of a run.
func (m *Model) waitersOf(user string, run posthaste.Position) []*posthaste.Waiter {
	return m.findWaiters(func(w *waiter) bool { return w.user == user && w.Run.Position == run })
}

func (m *Model) findWaiters(wanted func(*waiter) bool) (found []*posthaste.Waiter) {
	for _, w := range m.waiters {
		if wanted(w) {
			found = append(found, copyOf(&w.Waiter))
		}
	}
	return found
}
