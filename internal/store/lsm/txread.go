package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/lsm/postings"
)

// Get implements store.Reader.
func (tx *transaction) Get(kind store.ItemKind, key []byte) ([]byte, error) {
	t := tableOf(kind)
	tx.scratch = t.appendRecord(tx.scratch[:0], tx.user, key)
	if r, ok := tx.records[string(tx.scratch)]; ok {
		if r.deleted {
			return nil, store.ErrNotFound
		}
		return r.value, nil
	}
	return tx.getBelow(kind, key)
}

// getBelow returns a record as it was before this transaction.
func (tx *transaction) getBelow(kind store.ItemKind, key []byte) ([]byte, error) {
	value, err := getRecord(tx.c.records(), kind, tx.user, key)
	if err != nil || kind != store.ItemFlowKey {
		return value, err
	}
	name := string(key)
	value, tx.windows[name] = tx.store.asOfNow(tx.user, name, value)
	return value, nil
}

// getRecord returns a record of a user, or store.ErrNotFound.
func getRecord(r pebble.Reader, kind store.ItemKind, user string, key []byte) (value []byte, err error) {
	t := tableOf(kind)
	err = get(r, t.appendRecord(nil, user, key), func(data []byte) error {
		value = bytes.Clone(data)
		return nil
	})
	return value, err
}

// Scan implements store.Reader.
func (tx *transaction) Scan(kind store.ItemKind, prefix, after []byte, limit int, visit func(key, value []byte) error) (more bool, err error) {
	t := tableOf(kind)
	base := t.appendRecordPrefix(nil, tx.user)
	from, to := scanRange(base, prefix, after)
	keys := tx.inOrder()
	first, _ := slices.BinarySearch(keys, string(from))
	last, _ := slices.BinarySearch(keys, string(to))
	return scanRecords(tx.c.records(), len(base), from, to, limit, keys[first:max(first, last)], tx.records, visit)
}

// scanRange returns the range of keys that begin with base and prefix and come after base and after.
func scanRange(base, prefix, after []byte) (from, to []byte) {
	from = slices.Concat(base, prefix)
	to = store.PrefixEnd(from)
	if after != nil && bytes.Compare(after, prefix) >= 0 {
		from = append(slices.Concat(base, after), 0)
	}
	return from, to
}

// scanRecords visits the records of a reader from one key on and before another, replaced by those that
// are staged, whose keys in that range are given in order.
func scanRecords(r pebble.Reader, base int, from, to []byte, limit int, over []string, records map[string]staged, visit func(key, value []byte) error) (more bool, err error) {
	if bytes.Compare(from, to) >= 0 {
		return false, nil
	}
	iter, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, iter.Error(), iter.Close()) }()
	budget := store.NewPageBudget(0)
	for n, valid := 0, iter.First(); valid || len(over) > 0; {
		var key, value []byte
		deleted := false
		own := len(over) > 0 && (!valid || over[0] <= string(iter.Key()))
		replaced := own && valid && over[0] == string(iter.Key())
		if own {
			r := records[over[0]]
			key, value, deleted = []byte(over[0]), r.value, r.deleted
			over = over[1:]
		} else {
			key, value = iter.Key(), iter.Value()
		}
		if !deleted {
			if n == limit || !budget.Take(len(key)+len(value)) {
				return true, nil
			}
			n++
			if err := visit(key[base:], value); err != nil {
				return false, err
			}
		}
		if !own || replaced {
			valid = iter.Next()
		}
	}
	return false, nil
}

// Find implements store.Reader.
func (tx *transaction) Find(query store.FindQuery, visit func(posthaste.Position, []byte) (bool, error)) (posthaste.Position, bool, error) {
	return find(tx.c.records(), tx.user, &query, visit)
}

// find visits the records of a user that a query selects.
func find(r pebble.Reader, user string, query *store.FindQuery, visit func(posthaste.Position, []byte) (bool, error)) (next posthaste.Position, more bool, err error) {
	t := tableOf(query.Kind)
	in, err := found(r, user, t, query)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	prefix := t.appendRecordPrefix(nil, user)
	return in.Walk(query.Low, query.High, func(at posthaste.Position) (full bool, err error) {
		key := binary.BigEndian.AppendUint64(prefix[:len(prefix):len(prefix)], uint64(at))
		err = get(r, key, func(value []byte) (err error) {
			full, err = visit(at, value)
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return full, err
	})
}

// found opens the set of positions that a query selects. Records are added and removed one by one, so
// each of their terms has a key.
func found(r pebble.Reader, user string, t *table, query *store.FindQuery) (*postings.Intersection, error) {
	var prefixes [][][]byte
	for _, terms := range query.Terms {
		prefixes = append(prefixes, each(terms, func(term store.Term) []byte { return t.appendPostingPrefix(nil, user, term) }))
	}
	if len(query.Terms) == 0 && len(query.At) == 0 {
		prefixes = [][][]byte{{t.appendRecordPrefix(nil, user)}}
	}
	in, err := postings.Intersect(r, prefixes, postings.Direction(query.OldestFirst), true, new(int))
	if err == nil && len(query.At) > 0 {
		in.Restrict(query.At)
	}
	return in, err
}

// Message implements store.Reader.
func (tx *transaction) Message(id posthaste.MessageID) (*posthaste.Message, error) {
	if at, ok := tx.placeOf[id]; ok && tx.places[at].message != nil {
		return tx.places[at].message, nil
	}
	if m := tx.messages[id]; m != nil {
		return m, nil
	}
	if m := tx.store.scheduler.Claimed(tx.user, id).Message; m != nil {
		return m, nil
	}
	m, err := tx.c.message(tx.user, id)
	if err != nil {
		return nil, tx.store.told(tx.user, id, err)
	}
	tx.messages[id] = m
	return m, nil
}

// told returns the error that readers of a message get.
func (s *Store) told(user string, id posthaste.MessageID, err error) error {
	if s.passedOver(user, id, err) {
		return fmt.Errorf("%w: %w", store.ErrUnreadable, err)
	}
	return err
}

// Place implements store.Reader.
func (tx *transaction) Place(id posthaste.MessageID) (*store.Place, error) {
	p, err := tx.place(id)
	if err != nil {
		return nil, err
	}
	return p.now.placeOf(p.lease), nil
}

// place returns where a message stands. One that waits is held, so that it is not claimed before this
// commit is durable; claims end only in operations of the writer. What has ended and keeps its slot
// is not claimed anyway, and neither is a message that cannot be read.
func (tx *transaction) place(id posthaste.MessageID) (*placed, error) {
	if at, ok := tx.placeOf[id]; ok {
		return &tx.places[at], nil
	}
	claim := tx.store.scheduler.Claimed(tx.user, id)
	st, err := tx.statusOf(id, &claim)
	if err != nil {
		return nil, err
	}
	p := placed{id: id, before: st, now: st}
	if st.inLane() {
		p.message, err = tx.Message(id)
		if err != nil && !errors.Is(err, store.ErrUnreadable) {
			return nil, err
		}
	}
	if p.message != nil {
		p.lane = laneOf(p.message)
		if !st.state.Terminal() {
			p.claim = tx.store.scheduler.Hold(tx.user, id).Lease
			if p.held = p.claim == nil; !p.held {
				p.lease = p.claim.Token
			}
		}
	}
	return tx.addPlace(p), nil
}

// statusOf returns the status of a message that may be claimed. A claim knows as much as the disk,
// except in a queue, where it may have changed since: by the end of a callback.
func (tx *transaction) statusOf(id posthaste.MessageID, claim *lanes.Claimed) (status, error) {
	if known, ok := tx.c.states[messageID{tx.user, id}]; ok {
		return known.status, nil
	}
	if claim.Lease == nil || claim.InQueue() {
		return tx.c.status(tx.user, id)
	}
	st := status{state: posthaste.StateCreated, order: claim.Order, Waiting: claim.Waiting}
	if st.Retried > 0 {
		st.state = posthaste.StateRetry
	}
	st.CancelRequested = claim.CancelRequested
	return st, nil
}

// View implements store.Backend.
func (s *Store) View(_ context.Context, scope store.Scope, read func(store.Reader) error) (err error) {
	done, err := s.reading()
	if err != nil {
		return err
	}
	defer done(&err)
	return read(&view{s, scope.User})
}

// view implements store.Reader. What LaneLengths and UnderKeys return does not depend on a transaction's
// own writes.
type view struct {
	store *Store
	user  string
}

// Fetch implements store.Reader. What is read is close by.
func (v *view) Fetch(store.Hint) error { return nil }

// Get implements store.Reader.
func (v *view) Get(kind store.ItemKind, key []byte) ([]byte, error) {
	value, err := getRecord(v.store.db, kind, v.user, key)
	if err != nil || kind != store.ItemFlowKey {
		return value, err
	}
	value, _ = v.store.asOfNow(v.user, string(key), value)
	return value, nil
}

// Scan implements store.Reader.
func (v *view) Scan(kind store.ItemKind, prefix, after []byte, limit int, visit func(key, value []byte) error) (more bool, err error) {
	t := tableOf(kind)
	base := t.appendRecordPrefix(nil, v.user)
	from, to := scanRange(base, prefix, after)
	return scanRecords(v.store.db, len(base), from, to, limit, nil, nil, visit)
}

// Find implements store.Reader.
func (v *view) Find(query store.FindQuery, visit func(posthaste.Position, []byte) (bool, error)) (next posthaste.Position, more bool, err error) {
	snapshot := v.store.db.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	return find(snapshot, v.user, &query, visit)
}

// Message implements store.Reader.
func (v *view) Message(id posthaste.MessageID) (*posthaste.Message, error) {
	m, err := readMessage(v.store.db, v.user, id)
	if err != nil {
		return nil, v.store.told(v.user, id, err)
	}
	return m, nil
}

// Place implements store.Reader.
func (v *view) Place(id posthaste.MessageID) (*store.Place, error) {
	st, err := readStatus(v.store.db, v.user, id)
	if err != nil {
		return nil, err
	}
	if st.state.Terminal() {
		return st.placeOf(0), nil
	}
	return st.placeOf(v.store.scheduler.Token(id)), nil
}

// Due implements store.Backend.
func (s *Store) Due(_ context.Context, kind store.ItemKind, now time.Time, limit int, except ...string) (due []store.Record, next time.Time, err error) {
	done, err := s.hold()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	t := tableOf(kind)
	err = scan(s.db, []byte(t.due), func(key, _ []byte) error {
		at, user, tail, err := t.parseDue(key)
		if err != nil {
			s.unreadable.add(key, err)
			return nil
		}
		if slices.Contains(except, user) {
			return nil
		}
		if at.After(now) || len(due) == limit {
			next = at
			return errEnough
		}
		value, err := getRecord(s.db, kind, user, tail)
		if errors.Is(err, store.ErrNotFound) {
			return nil // deleted since the scan began
		}
		due = append(due, store.Record{User: user, RecordKey: store.RecordKey{Kind: kind, Key: bytes.Clone(tail)}, Value: value})
		return err
	})
	return due, next, err
}
