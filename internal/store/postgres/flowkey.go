package postgres

import (
	"time"

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
