package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// scopedTx implements store.Tx: a change, and the user that it is about.
type scopedTx struct {
	reader
	*tx
	user  string
	ended []store.Claim // by this change
	err   error         // why the change fails, whatever it returns
}

// Update implements store.Backend. The changes of a user that wait at the same time share a
// transaction: see change.
func (s *Store) Update(ctx context.Context, now time.Time, scope store.Scope, change func(store.Tx) error) error {
	return s.UpdateSeveral(ctx, now, []store.Scope{scope}, func(all []store.Tx) error { return change(all[0]) })
}

// UpdateSeveral implements store.Divisible. Changes of more than one user have transactions of their own.
func (s *Store) UpdateSeveral(ctx context.Context, now time.Time, scopes []store.Scope, change func([]store.Tx) error) error {
	users, w := scopeUsers(scopes)
	var ended []store.Claim
	err := s.call(ctx, now, users, w, func(own *tx) (err error) {
		ended, err = changeScopes(scopes, func(string) *tx { return own }, change)
		return err
	})
	if err == nil {
		s.held.remove(ended...)
	}
	return err
}

// scopeUsers returns the users of scopes, and what their hints name.
func scopeUsers(scopes []store.Scope) (users []string, w prefetch) {
	for _, scope := range scopes {
		w.add(prefetchOf(scope.User, scope.Hint))
		users = append(users, scope.User)
	}
	return users, w
}

// changeScopes makes a change in the transactions of some users, and returns the claims that it has ended.
func changeScopes(scopes []store.Scope, txOf func(user string) *tx, change func([]store.Tx) error) (ended []store.Claim, err error) {
	own, all := make([]*scopedTx, len(scopes)), make([]store.Tx, len(scopes))
	for i, scope := range scopes {
		tx := txOf(scope.User)
		if scope.Partitions != 0 && scope.Partitions != tx.divided[scope.User] {
			return nil, store.ErrDivided
		}
		own[i] = tx.scoped(scope.User)
		all[i] = own[i]
	}
	err = change(all)
	for _, scoped := range own {
		err = cmp.Or(err, scoped.err)
		ended = append(ended, scoped.ended...)
	}
	return ended, err
}

func (tx *tx) scoped(user string) *scopedTx {
	return &scopedTx{reader: reader{tx, &tx.readCache, tx.ctx, tx.store, user}, tx: tx, user: user}
}

// Due implements store.Backend. Each node gets all that are due. Of those that are not, it reads
// the time of the first.
func (s *Store) Due(ctx context.Context, kind store.ItemKind, now time.Time, limit int, except ...string) (due []store.Record, next time.Time, err error) {
	found, err := s.findDueRecords(ctx, kind, now, limit, except)
	due, next = dueBy(found, now, limit)
	return due, next, err
}

// findDueRecords returns due records and the next one, one more than the limit at most.
func (s *Store) findDueRecords(ctx context.Context, kind store.ItemKind, now time.Time, limit int, except []string) ([]dueRecord, error) {
	return read(ctx, s, func(ctx context.Context, q querier) ([]dueRecord, error) {
		return rows(ctx, q, scanDue, `
			(SELECT user_id, kind, key, value, due FROM posthaste.records
				WHERE kind = $1 AND due <= $4 AND (user_id = ANY($3)) IS NOT TRUE
				ORDER BY due, user_id, key LIMIT $2)
			UNION ALL (SELECT user_id, kind, key, ''::bytea, due FROM posthaste.records
				WHERE kind = $1 AND due > $4 AND (user_id = ANY($3)) IS NOT TRUE
				ORDER BY due LIMIT 1)
			ORDER BY due, user_id, key`, int16(kind), limit+1, except, now.UnixMilli())
	})
}

// dueBy returns those of some records that are due, and when the next one is.
func dueBy(found []dueRecord, now time.Time, limit int) (due []store.Record, next time.Time) {
	for _, d := range found {
		if len(due) == limit || d.at.After(now) {
			return due, d.at
		}
		due = append(due, d.Record)
	}
	return due, time.Time{}
}

type dueRecord struct {
	store.Record
	at time.Time
}

func scanDue(r pgx.CollectableRow) (d dueRecord, err error) {
	var at int64
	err = r.Scan(&d.User, &d.Kind, &d.Key, &d.Value, &at)
	d.at = time.UnixMilli(at)
	return d, err
}

func (s *scopedTx) NextPosition(slot posthaste.Slot) posthaste.Position {
	return s.nextPosition(s.user, slot)
}

// Get returns a flow-control key as the claims of this transaction have left it.
func (s *scopedTx) Get(kind store.ItemKind, key []byte) ([]byte, error) {
	if kind == store.ItemFlowKey {
		s.saveFlowKeys()
	}
	return s.reader.Get(kind, key)
}

func (s *scopedTx) Put(kind store.ItemKind, key, value []byte, was, is store.Found) {
	of := recordOf{s.user, kind, string(key)}
	s.putTerms(of, was, is)
	if kind == store.ItemFlowKey {
		s.putFlowKey(of, value)
		return
	}
	s.putRecord(of, value, milli(is.DueAt))
	if kind == store.ItemQueue {
		s.reopened[queueLane(s.user, of.key)] = true
	}
}

// putFlowKey writes a flow-control key, and wakes what it blocks if more than its use has
// changed.
func (s *scopedTx) putFlowKey(of recordOf, value []byte) {
	key := name{of.user, of.key}
	var before []byte
	if s.readCache.records[of] != nil {
		before = s.knownKey(key).limits()
	}
	s.putRecord(of, value, nil)
	after := s.knownKey(key)
	s.decodeKey(key)
	if before == nil || !bytes.Equal(before, after.limits()) {
		s.wakeBlockedOn(of.user, of.key)
	}
}

// limits is what decides about attempts, nil if that is not known.
func (k *flowKey) limits() []byte {
	if k.damage != nil {
		return nil
	}
	limits := *k.FlowKey
	limits.CreatedAt, limits.UsedAt = time.Time{}, time.Time{}
	return record.AppendFlowKey(nil, &limits)
}

func (s *scopedTx) Delete(kind store.ItemKind, key []byte, was store.Found) {
	of := recordOf{s.user, kind, string(key)}
	s.putTerms(of, was, store.Found{})
	s.deleteRecord(of)
	switch kind {
	case store.ItemQueue:
		s.reopened[queueLane(s.user, of.key)] = true // what is left is in no queue any more
	case store.ItemFlowKey:
		s.wakeBlockedOn(s.user, of.key)
	}
}

// putTerms changes what a record is found by.
func (s *scopedTx) putTerms(of recordOf, was, is store.Found) {
	before, after := termColumns(was.Terms), termColumns(is.Terms)
	for _, t := range without(before, after) {
		s.terms[of.term(t)] = false
	}
	for _, t := range without(after, before) {
		s.terms[of.term(t)] = true
	}
}

// term names a term of a record.
func (of recordOf) term(t int64) termOf {
	return termOf{of.user, of.kind, int64(positionAt([]byte(of.key))), t}
}

// DeleteBefore deletes at once what is stored.
func (s *scopedTx) DeleteBefore(kind store.ItemKind, before []byte) {
	s.exec(`DELETE FROM posthaste.records WHERE user_id = $1 AND kind = $2 AND key < $3`, s.user, int16(kind), before)
}

func (s *scopedTx) Count(of store.RecordKey, entries, size int) {
	s.addUsage(usageKey{user: s.user, kind: int16(of.Kind)}, entries, size)
}

func (s *scopedTx) Log(m *posthaste.Message, event posthaste.Event) posthaste.Position {
	return s.event(m, event)
}

func (s *scopedTx) Accept(m *posthaste.Message, place store.Place) {
	envelope := record.AppendMessage(nil, m)
	s.accepted = append(s.accepted, newMessageRow(m, envelope))
	s.addUsage(usageKey{m.User, usageLog, dayOf(posthaste.FirstPosition(s.nextTime(m.User)))}, 0, len(envelope))
	l := &liveMessage{user: m.User, id: m.ID, lane: laneOf(m)}
	l.setPlace(&place)
	if m.FlowControl.Key != "" {
		l.flowKey = []byte(m.FlowControl.Key)
	}
	s.messages[l.of()], s.lives[l.of()] = m, l
	s.save(l)
	s.arrive(l)
}

func (s *scopedTx) Save(m *posthaste.Message, place *store.Place) {
	l := s.inLane(m)
	if l == nil {
		return
	}
	s.move(m, l, place)
	if place.State.Terminal() && !place.Lingers {
		s.remove(l)
		s.free(l.lane, 0)
	} else {
		s.save(l)
	}
}

// move changes the place of a message, and has Claim look at what that may let start. A message
// that has ended does not count in its lane, where it may linger.
func (s *scopedTx) move(m *posthaste.Message, l *liveMessage, place *store.Place) {
	before := *l
	if l.setPlace(place); l.lease == 0 && before.lease != 0 {
		s.ended = append(s.ended, store.Claim{Message: m, Lease: uint64(before.lease)})
	}
	switch ends := l.state.Terminal() && !before.state.Terminal(); {
	case ends:
		s.finished = append(s.finished, &ending{l.of(), l.state, l.retried})
		s.free(l.lane, -1)
		s.wakeBlocked(l)
	case l.lease != before.lease:
		s.touch(l.lane, 0)
		s.wakeBlocked(l)
	case l.dueMS != before.dueMS || l.place != before.place:
		s.touch(l.lane, 0)
	}
}

// inLane returns the row of a message in a lane. If there is none, the change fails.
func (s *scopedTx) inLane(m *posthaste.Message) *liveMessage {
	l, err := s.live(m.User, m.ID)
	if err != nil {
		s.err = fmt.Errorf("message %s has no place that could change: %w", m.ID, err)
		return nil
	}
	return l
}

// CheckSpace implements store.Tx: the database watches its own disk.
func (s *scopedTx) CheckSpace() error { return nil }

// asPlace returns the place of a message.
func (l *liveMessage) asPlace() *store.Place {
	return &store.Place{
		State: l.state, Order: l.place, DueAt: time.UnixMilli(l.dueMS), Retried: l.retried,
		CancelRequested: l.cancelRequested, Callbacks: l.callbacks, Lingers: l.ended, Lease: uint64(l.lease),
	}
}

func (l *liveMessage) setPlace(p *store.Place) {
	l.state, l.place, l.dueMS, l.retried = p.State, p.Order, p.DueAt.UnixMilli(), p.Retried
	l.cancelRequested, l.callbacks, l.ended, l.lease = p.CancelRequested, p.Callbacks, p.Lingers, int64(p.Lease)
}
