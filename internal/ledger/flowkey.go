package ledger

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// UpdateFlowKey implements store.Store.
func (l *Ledger) UpdateFlowKey(ctx context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error {
	return l.update(ctx, now, user, flowKeys.scope(user, key).Hint, func(tx *tx) error {
		return flowKeys.update(tx, key, posthaste.FlowKey{Key: key}, func(k *posthaste.FlowKey) error {
			if err := change(k); err != nil {
				return err
			}
			if k.CreatedAt.IsZero() {
				k.CreatedAt = now
			}
			k.Use(now)
			return nil
		})
	})
}

// countedAtMost bounds how many waiting messages are looked at to count those under a key.
const countedAtMost = 100_000

// FlowKey implements store.Store.
func (l *Ledger) FlowKey(ctx context.Context, now time.Time, user, key string) (status store.FlowStatus, err error) {
	err = l.View(ctx, flowKeys.scope(user, key), func(r store.Reader) error {
		k, err := flowKeys.get(r, user, key)
		if err != nil {
			return err
		}
		all, err := flowStatuses(r, now, []*posthaste.FlowKey{k})
		if err == nil {
			status = all[0]
		}
		return err
	})
	return status, err
}

// FlowKeys implements store.Store.
func (l *Ledger) FlowKeys(ctx context.Context, now time.Time, user, contains, after string) (list store.List[store.FlowStatus], err error) {
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		part, err := flowKeys.part(r, user, after)
		if err != nil {
			return err
		}
		list.Next = part.Next
		wanted := slices.DeleteFunc(part.Items, func(k *posthaste.FlowKey) bool { return !strings.Contains(k.Key, contains) })
		if wanted, err = withWindows(r, user, wanted); err != nil {
			return err
		}
		list.Items, err = flowStatuses(r, now, wanted)
		return err
	})
	return list, err
}

// withWindows returns keys with their windows as of now, which a scan does not know.
func withWindows(r store.Reader, user string, of []*posthaste.FlowKey) (keys []*posthaste.FlowKey, err error) {
	names := namesOf(of)
	if err := r.Fetch(keysHint(names)); err != nil {
		return nil, err
	}
	for _, name := range names {
		k, err := flowKeys.get(r, user, name)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// flowStatuses counts the messages under keys.
func flowStatuses(r store.Reader, now time.Time, of []*posthaste.FlowKey) ([]store.FlowStatus, error) {
	uses, err := r.UnderKeys(namesOf(of), now, countedAtMost)
	if err != nil {
		return nil, err
	}
	statuses := make([]store.FlowStatus, len(of))
	for i, k := range of {
		window := flow.Window{StartedAt: k.WindowStartedAt, Count: k.WindowCount}.Current(k.FlowLimit, now)
		statuses[i] = store.FlowStatus{FlowKey: *k, InFlight: uses[i].InFlight, Waiting: max(0, uses[i].Waiting)}
		statuses[i].WindowStartedAt, statuses[i].WindowCount = window.StartedAt, window.Count
	}
	return statuses, nil
}

func namesOf(keys []*posthaste.FlowKey) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	return names
}

// A flow-control key is removed in three steps, because many messages may have to be counted, and
// no change may wait for that. A change marks the key; then the messages under it are counted; then
// a change removes the key if there are none and it still has the mark, or takes the mark away. A
// message that is accepted meanwhile uses the key, which takes away the mark, so that the key stays.

// DeleteFlowKey implements store.Store. It begins again if the key was used meanwhile.
func (l *Ledger) DeleteFlowKey(ctx context.Context, user, key string) error {
	always := func(*posthaste.FlowKey) bool { return true }
	for {
		marked, err := l.markKeys(ctx, user, []string{key}, always)
		if err != nil {
			return err
		}
		if len(marked.usedAt) == 0 {
			return store.ErrNotFound
		}
		under, err := l.messagesUnder(ctx, user, marked)
		if err != nil {
			return err
		}
		removed, err := l.removeMarked(ctx, user, marked, under, always)
		if refused := store.RefuseDeleteFlowKey(key, under[key]); err == nil && refused != nil {
			return refused
		}
		if removed > 0 || err != nil {
			return err
		}
	}
}

// trimmedKeys is how many flow-control keys retention looks at, and removes, at once.
const trimmedKeys = 200

// trimFlowKeys removes keys that have been idle since a time and that no message needs. Keys that
// cannot be read stay.
func (l *Ledger) trimFlowKeys(ctx context.Context, user string, since time.Time) (removed int, err error) {
	idle := func(k *posthaste.FlowKey) bool { return k.Idle(since) }
	for after, more := []byte(nil), true; more; {
		var names []string
		var last []byte
		err := l.View(ctx, store.Scope{User: user}, func(r store.Reader) (err error) {
			names = nil
			more, err = r.Scan(store.ItemFlowKey, nil, after, trimmedKeys, func(name, data []byte) error {
				last = append(last[:0], name...)
				if k, err := flowKeys.read(user, string(name), data); err == nil && idle(k) {
					names = append(names, k.Key)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return removed, err
		}
		after = last
		n, err := l.removeIdle(ctx, user, names, idle)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// removeIdle removes those of some keys that are idle and that no message needs.
func (l *Ledger) removeIdle(ctx context.Context, user string, names []string, idle func(*posthaste.FlowKey) bool) (int, error) {
	if len(names) == 0 {
		return 0, nil
	}
	marked, err := l.markKeys(ctx, user, names, idle)
	if err != nil {
		return 0, err
	}
	under, err := l.messagesUnder(ctx, user, marked)
	if err != nil {
		return 0, err
	}
	return l.removeMarked(ctx, user, marked, under, idle)
}

// markedKeys are flow-control keys with a mark: a time of use that nothing else sets.
type markedKeys struct {
	mark   time.Time
	usedAt map[string]time.Time // before, by key
}

// markKeys marks those of some keys that exist and for which a condition holds.
func (l *Ledger) markKeys(ctx context.Context, user string, names []string, condition func(*posthaste.FlowKey) bool) (markedKeys, error) {
	var marked markedKeys
	const year = 365 * 24 * time.Hour
	marked.mark = time.UnixMilli(1 + rand.Int64N(year.Milliseconds())) // long ago, so that any use replaces it
	err := l.update(ctx, time.Time{}, user, keysHint(names), func(tx *tx) error {
		marked.usedAt = map[string]time.Time{}
		for _, name := range names {
			stored, err := flowKeys.load(tx, name)
			if err != nil {
				return err
			}
			if stored == nil || !condition(stored) {
				continue
			}
			changed := *stored
			changed.UsedAt = marked.mark
			flowKeys.save(tx, name, stored, &changed)
			marked.usedAt[name] = stored.UsedAt
		}
		return nil
	})
	return marked, err
}

// messagesUnder counts the messages under marked keys that have not ended.
func (l *Ledger) messagesUnder(ctx context.Context, user string, marked markedKeys) (counts map[string]int, err error) {
	keys := slices.Sorted(maps.Keys(marked.usedAt))
	if len(keys) == 0 {
		return nil, nil
	}
	err = l.View(ctx, store.Scope{User: user}, func(r store.Reader) error {
		uses, err := r.UnderKeys(keys, time.UnixMilli(math.MaxInt64), math.MaxInt)
		counts = map[string]int{}
		for i, use := range uses {
			counts[keys[i]] = use.InFlight + use.Waiting
		}
		return err
	})
	return counts, err
}

// removeMarked removes the marked keys that no message names, that nothing has used since they were
// marked and for which a condition still holds: an attempt that has ended meanwhile counts in the
// window of its key. The others lose their marks. It returns how many it removed.
func (l *Ledger) removeMarked(ctx context.Context, user string, marked markedKeys, under map[string]int, condition func(*posthaste.FlowKey) bool) (int, error) {
	removed := 0
	names := slices.Sorted(maps.Keys(marked.usedAt))
	if len(names) == 0 {
		return 0, nil
	}
	err := l.update(ctx, time.Time{}, user, keysHint(names), func(tx *tx) error {
		removed = 0
		for _, name := range names {
			stored, err := flowKeys.load(tx, name)
			if err != nil {
				return err
			}
			if stored == nil || !stored.UsedAt.Equal(marked.mark) {
				continue
			}
			if under[name] == 0 && condition(stored) {
				flowKeys.remove(tx, name, stored)
				removed++
				continue
			}
			unmarked := *stored
			unmarked.UsedAt = marked.usedAt[name]
			flowKeys.save(tx, name, stored, &unmarked)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// keysHint names the records of flow-control keys.
func keysHint(names []string) (h store.Hint) {
	for _, name := range names {
		h.Records = append(h.Records, flowKeys.key(name))
	}
	return h
}
