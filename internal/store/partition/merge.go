package partition

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// merged are pages of several partitions, which become one: of what they have, as far as all of them are
// known.
type merged[T any] struct {
	items       []T
	at          func(T) posthaste.Position
	oldestFirst bool
	next        posthaste.Position // where the first page ended that has more
	more        bool
}

// ends notes where the page of a partition ends.
func (m *merged[T]) ends(next posthaste.Position, more bool) {
	if more && (!m.more || m.before(next, m.next)) {
		m.next, m.more = next, true
	}
}

// before reports whether a position comes before another one on the page.
func (m *merged[T]) before(a, b posthaste.Position) bool {
	if m.oldestFirst {
		return a < b
	}
	return a > b
}

// visit visits the items in order, until it is told that there is no room for one.
func (m *merged[T]) visit(visit func(T) (full bool, err error)) (next posthaste.Position, more bool, err error) {
	slices.SortFunc(m.items, func(a, b T) int {
		order := cmp.Compare(m.at(a), m.at(b))
		if !m.oldestFirst {
			order = -order
		}
		return order
	})
	for i, item := range m.items {
		at := m.at(item)
		if i > 0 && at == m.at(m.items[i-1]) {
			continue // it was moved while the partitions were read
		}
		if m.more && !m.before(at, m.next) {
			break
		}
		full, err := visit(item)
		if err != nil {
			return 0, false, err
		}
		if full {
			return at, true, nil
		}
	}
	return m.next, m.more, nil
}

// counted is what a count is about.
type counted struct {
	hour         int64
	rest, noPath bool
	host, path   string
	queue        string
	labels       string
	state        posthaste.State
	class        int
	latency      store.Latency
}

func countedIn(c *store.Count) counted {
	return counted{c.Hour.Unix(), c.Rest, c.NoPath, c.Host, c.Path, c.Queue, strings.Join(c.Labels, "\x00"), c.State, c.Class, c.Latency}
}

// Counts implements store.Log.
func (s *Store) Counts(ctx context.Context, user string, from, until time.Time, visit func(*store.Count)) (err error) {
	d, done, err := s.below.Reading(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	var all []store.Count
	at := map[counted]int{} // in all
	for _, partition := range d.All(user) {
		err := s.Backend.Counts(ctx, partition, from, until, func(c *store.Count) {
			of := countedIn(c)
			if i, known := at[of]; known {
				all[i].N += c.N
				return
			}
			own := *c
			own.Labels = slices.Clone(c.Labels)
			at[of] = len(all)
			all = append(all, own)
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b store.Count) int { return a.Hour.Compare(b.Hour) })
	for i := range all {
		visit(&all[i])
	}
	return nil
}

// growing has, by user, what waits for the log of any partition to grow.
type growing struct {
	mu  sync.Mutex
	any map[string]chan struct{}
}

// Watch implements store.Backend.
func (s *Store) Watch(ctx context.Context, user string) (end posthaste.Position, grown <-chan struct{}, err error) {
	d, done, err := s.below.Reading(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer done(&err)
	if d.Whole() {
		return s.Backend.Watch(ctx, user)
	}
	end, all, err := s.below.WatchSeveral(ctx, d.All(user))
	if err != nil {
		return 0, nil, err
	}
	return end, s.growing.of(user, all), nil
}

// of returns what closes when one of some channels does, or one of those of an earlier call that has not
// been closed yet: a single goroutine waits for each user.
func (g *growing) of(user string, all []<-chan struct{}) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if waiting := g.any[user]; waiting != nil {
		return waiting
	}
	if g.any == nil {
		g.any = map[string]chan struct{}{}
	}
	grown := make(chan struct{})
	g.any[user] = grown
	each := make([]reflect.SelectCase, len(all))
	for i, grown := range all {
		each[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(grown)}
	}
	go func() {
		reflect.Select(each)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.any, user)
		close(grown)
	}()
	return grown
}
