package postgres

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

type flowKey struct {
	*posthaste.FlowKey
	dirty    bool
	counted  bool  // inFlight is known
	inFlight int   // attempts
	damage   error // why it cannot be read: nothing starts under it, and nothing changes it

	// loggedAt is the time of the next attempt's event. Rate windows go by it: it never goes
	// back, whatever the nodes' clocks say.
	loggedAt time.Time
}

// flowKey returns a key, a new one if it does not exist. It is read once in a transaction, and
// written if dirty.
func (t *userTx) flowKey(user, key string) (*flowKey, error) {
	_, err := t.record(t.ctx, t, flowKeyOf(user, key))
	if ignore(err, store.ErrNotFound) != nil {
		return nil, err
	}
	k := t.knownKey(name{user, key})
	return k, k.damage
}

// knownKey is flowKey for a key whose record is known.
func (t *userTx) knownKey(of name) *flowKey {
	if t.keys[of] == nil {
		t.keys[of] = &flowKey{}
		t.decodeKey(of)
	}
	return t.keys[of]
}

// decodeKey reads a flow-control key from its record.
func (t *userTx) decodeKey(of name) {
	k := t.keys[of]
	k.FlowKey, k.damage, k.dirty = &posthaste.FlowKey{Key: of.name}, nil, false
	r := t.readCache.records[flowKeyOf(of.user, of.name)]
	if r == nil || r.value == nil {
		return
	}
	stored, damage := flowKeys.read(of.user, []byte(of.name), r.value)
	if k.damage = damage; damage != nil {
		t.store.setAside.addDocument(damage, t.store.logger)
		return
	}
	k.FlowKey = stored
}

// saveFlowKeys writes the changed keys to their records.
func (t *userTx) saveFlowKeys() {
	for of, key := range t.keys {
		if key.dirty {
			t.changedRecord(flowKeyOf(of.user, of.name)).value = flowKeys.encode(nil, key.FlowKey)
			key.dirty = false
		}
	}
}

// admit counts an attempt if flow.Admit lets it start now.
func (k *flowKey) admit(now time.Time) (ok bool, opens time.Time) {
	if k.damage != nil {
		return false, time.Time{}
	}
	if k.loggedAt.After(now) {
		now = k.loggedAt
	}
	window, opens, ok := flow.Admit(k.FlowKey, k.inFlight, now)
	if ok {
		k.inFlight++
		k.dirty = k.dirty || window != flow.WindowOf(k.FlowKey)
		k.WindowStartedAt, k.WindowCount = window.StartedAt, window.Count
	}
	return ok, opens
}

func (s *Store) UpdateFlowKey(ctx context.Context, now time.Time, user, key string, change func(*posthaste.FlowKey) error) error {
	return s.call(ctx, now, []string{user}, func(tx *tx) error {
		known, err := tx.flowKey(user, key)
		if err != nil {
			return err
		}
		changed := *known.FlowKey
		if err := change(&changed); err != nil {
			return err
		}
		if changed.CreatedAt.IsZero() {
			changed.CreatedAt = now
		}
		changed.Use(now)
		*known.FlowKey, known.dirty = changed, true
		tx.wakeBlockedOn(user, key)
		return nil
	})
}

func (s *Store) DeleteFlowKey(ctx context.Context, user, key string) error {
	return s.call(ctx, time.Time{}, []string{user}, func(tx *tx) error {
		known, err := tx.flowKey(user, key)
		if err != nil {
			return err
		}
		if known.CreatedAt.IsZero() {
			return store.ErrNotFound
		}
		under, err := tx.messagesUnder(user, []string{key})
		if err == nil {
			err = store.RefuseDeleteFlowKey(key, under[key])
		}
		if err != nil {
			return err
		}
		tx.removeFlowKey(user, key)
		return nil
	})
}

// removeFlowKey removes a key. A later use in the transaction creates it again.
func (tx *tx) removeFlowKey(user, key string) {
	flowKeys.remove(tx, user, key)
}

// messagesUnder counts messages that have not ended, by flow-control key.
func (tx *tx) messagesUnder(user string, names []string) (map[string]int, error) {
	counts, err := countUnder(tx.ctx, tx, user, names, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	under := map[string]int{}
	for i, name := range names {
		under[name] = counts[i].InFlight + counts[i].Waiting
	}
	return under, nil
}

func (s *Store) FlowKey(ctx context.Context, now time.Time, user, key string) (store.FlowStatus, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.FlowStatus, error) {
		k, err := flowKeys.get(ctx, q, user, key)
		if err != nil {
			return store.FlowStatus{}, err
		}
		all, err := flowStatuses(ctx, q, now, user, k)
		if err != nil {
			return store.FlowStatus{}, err
		}
		return all[0], nil
	})
}

func (s *Store) FlowKeys(ctx context.Context, now time.Time, user, contains, after string) (store.List[store.FlowStatus], error) {
	return read(ctx, s, func(ctx context.Context, q querier) (list store.List[store.FlowStatus], err error) {
		part, err := flowKeys.page(ctx, q, user, after)
		if err != nil {
			return list, err
		}
		list.Next = part.Next
		wanted := slices.DeleteFunc(part.Items, func(k *posthaste.FlowKey) bool { return !strings.Contains(k.Key, contains) })
		list.Items, err = flowStatuses(ctx, q, now, user, wanted...)
		return list, err
	})
}

// flowStatuses counts the messages under keys.
func flowStatuses(ctx context.Context, q querier, now time.Time, user string, of ...*posthaste.FlowKey) ([]store.FlowStatus, error) {
	counts, err := countUnder(ctx, q, user, column(of, func(k *posthaste.FlowKey) string { return k.Key }), now.UnixMilli())
	if err != nil {
		return nil, err
	}
	statuses := make([]store.FlowStatus, len(of))
	for i, k := range of {
		statuses[i] = store.FlowStatus{FlowKey: *k, InFlight: counts[i].InFlight, Waiting: counts[i].Waiting}
		window := flow.Window{StartedAt: k.WindowStartedAt, Count: k.WindowCount}.Current(k.FlowLimit, now)
		statuses[i].WindowStartedAt, statuses[i].WindowCount = window.StartedAt, window.Count
	}
	return statuses, nil
}

// underKey counts messages under a flow-control key.
type underKey struct{ InFlight, Waiting int }

// countUnder counts messages under keys: attempts, and messages that wait and are due by a time.
func countUnder(ctx context.Context, q querier, user string, keys []string, dueBy int64) ([]underKey, error) {
	return rows(ctx, q, pgx.RowToStructByPos[underKey], `
		SELECT
			(SELECT count(*) FROM posthaste.live l WHERE l.user_id = $1 AND l.flow_key = k.key AND lease <> 0),
			(SELECT count(*) FROM posthaste.live l WHERE l.user_id = $1 AND l.flow_key = k.key AND lease = 0 AND NOT ended AND due <= $3)
		FROM unnest($2::bytea[]) WITH ORDINALITY AS k (key, n) ORDER BY k.n`,
		user, column(keys, func(k string) []byte { return []byte(k) }), dueBy)
}
