package postgres

import (
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

type flowKey struct {
	*posthaste.FlowKey
	dirty    bool  // to be written to its record
	counted  bool  // inFlight is known
	inFlight int   // attempts
	damage   error // why it cannot be read: nothing starts under it

	// A message in a queue may be in another partition than its key. Nothing starts under a key whose
	// partition is not locked.
	elsewhere string // that partition
	foreign   bool   // it is in another database, and may change without a sign
	apart     bool   // attempts are in partitions that are not locked, and may end meanwhile

	// loggedAt is the time of the next attempt's event. Rate windows go by it: it never goes
	// back, whatever the nodes' clocks say.
	loggedAt time.Time
}

// flowKeyOf names the record of a flow-control key.
func flowKeyOf(user, key string) recordOf { return recordOf{user, store.ItemFlowKey, key} }

// knownKey returns a key whose record is known, a new one if it does not exist. It is decoded
// once in a transaction, and written if dirty.
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
	stored, err := record.DecodeFlowKey(of.name, r.value)
	if err != nil {
		k.damage = fmt.Errorf("flow-control key %q of user %q: %w", of.name, of.user, err)
		t.store.setAside.addRecord(k.damage, t.store.logger)
		return
	}
	k.FlowKey = stored
}

// saveFlowKeys writes the changed keys to their records.
func (t *userTx) saveFlowKeys() {
	for of, key := range t.keys {
		if key.dirty && t.store.placement.has(of.user) { // else Claim does
			t.changedRecord(flowKeyOf(of.user, of.name)).value = record.AppendFlowKey(nil, key.FlowKey)
			key.dirty = false
		}
	}
}

// keyOf names the flow-control key of a message.
func (t *userTx) keyOf(l *liveMessage) name {
	key := string(l.flowKey)
	return name{t.divisionOf(l.user).KeyHome(l.user, key), key}
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
