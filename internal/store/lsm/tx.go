package lsm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/lsm/postings"
	"posthaste/internal/store/record"
)

// Update implements store.Backend. It is one operation of the writer.
func (s *Store) Update(ctx context.Context, now time.Time, scope store.Scope, change func(store.Tx) error) error {
	if len(scope.User) > maxUserLen {
		return fmt.Errorf("user id of %d bytes: at most %d fit", len(scope.User), maxUserLen)
	}
	user := scope.User // alone: what a closure keeps is allocated
	return s.writer.do(ctx, func(c *commit) error {
		tx := &c.tx
		tx.begin(s, c, now, user)
		defer tx.end()
		if err := change(tx); err != nil {
			return err
		}
		if tx.err != nil {
			return tx.err
		}
		tx.write()
		return nil
	})
}

// UpdateSeveral implements store.Divisible.
func (s *Store) UpdateSeveral(ctx context.Context, now time.Time, scopes []store.Scope, change func([]store.Tx) error) error {
	return s.writer.do(ctx, func(c *commit) error {
		own, all := make([]transaction, len(scopes)), make([]store.Tx, len(scopes))
		for i, scope := range scopes {
			own[i].begin(s, c, now, scope.User)
			defer own[i].end()
			all[i] = &own[i]
		}
		if err := change(all); err != nil {
			return err
		}
		for i := range own {
			if own[i].err != nil {
				return own[i].err
			}
		}
		var events []logged // the log is written in order
		for i := range own {
			events, own[i].events = append(events, own[i].events...), nil
			own[i].write()
		}
		slices.SortFunc(events, func(a, b logged) int { return cmp.Compare(a.event.Position, b.event.Position) })
		for _, e := range events {
			c.addEvent(e.message, e.event)
		}
		return nil
	})
}

// transaction implements store.Tx. It stages its writes, and writes them once nothing can fail any more: a
// failed transaction leaves nothing behind in the commit. Reads see the staged writes, then the
// commit so far, then the database.
type transaction struct {
	view
	c   *commit
	now time.Time

	records  map[string]staged // by their keys; also the keys that they are found by
	keys     []string          // of the records, in order if sorted
	sorted   bool
	cuts     []keyRange // of records to be deleted
	settings []setting
	counts   []counted
	events   []logged
	places   []placed
	placeOf  map[posthaste.MessageID]int                // in places
	messages map[posthaste.MessageID]*posthaste.Message // that were read from disk
	windows  map[string]flow.Window                     // of flow-control keys, as Get has returned them
	scratch  []byte
	err      error // that a write ran into
}

// staged is a record to be written or deleted.
type staged struct {
	value   []byte
	deleted bool
	at      bool // the key ends in a position, and is one of a set of such
}

// keyRange is all keys from one on and before another.
type keyRange struct{ from, to []byte }

// setting is a queue or a flow-control key that has changed. value is nil if it is deleted.
type setting struct {
	kind  store.ItemKind
	name  string
	value []byte
}

// counted is a change of a number of records.
type counted struct {
	part   byte
	change int64
}

// logged is an event with its position.
type logged struct {
	message *posthaste.Message
	event   posthaste.Event
}

// placed is a message whose place was read or written.
type placed struct {
	id       posthaste.MessageID
	message  *posthaste.Message // nil if the place is not in a lane, or the message cannot be read
	lane     lanes.ID
	before   status
	now      status
	claim    *lanes.Lease // nil if it was not claimed
	lease    uint64       // as saved
	held     bool         // by this transaction
	accepted bool
	saved    bool
}

func (p *placed) spot() lanes.Spot { return lanes.Spot{Order: p.before.order, ID: p.id} }

// begin makes a transaction out of one that has ended.
func (tx *transaction) begin(s *Store, c *commit, now time.Time, user string) {
	if tx.records == nil {
		tx.records = map[string]staged{}
		tx.placeOf = map[posthaste.MessageID]int{}
		tx.messages = map[posthaste.MessageID]*posthaste.Message{}
		tx.windows = map[string]flow.Window{}
	}
	tx.view, tx.c, tx.now = view{s, user}, c, now
}

// end lets go of what was only read and forgets all. To empty large maps would take longer than to
// make new ones.
func (tx *transaction) end() {
	for i := range tx.places {
		if p := &tx.places[i]; p.held {
			tx.store.scheduler.Unhold(p.lane, p.id)
		}
	}
	const large = 256
	if len(tx.records) > large || len(tx.placeOf) > large || len(tx.messages) > large {
		*tx = transaction{}
		return
	}
	clear(tx.records)
	clear(tx.placeOf)
	clear(tx.messages)
	clear(tx.windows)
	tx.keys, tx.cuts, tx.settings, tx.counts = emptied(tx.keys), emptied(tx.cuts), emptied(tx.settings), emptied(tx.counts)
	tx.events, tx.places = emptied(tx.events), emptied(tx.places)
	tx.c, tx.err = nil, nil
}

// emptied returns an empty slice with the same memory, which refers to nothing.
func emptied[T any](all []T) []T {
	clear(all)
	return all[:0]
}

// NextPosition implements store.Tx. A position that is not used is of no harm.
func (tx *transaction) NextPosition(slot posthaste.Slot) posthaste.Position {
	tx.c.last = tx.c.last.Next(tx.now, slot)
	return tx.c.last
}

// CheckSpace implements store.Tx.
func (tx *transaction) CheckSpace() error { return tx.store.Room() }

// Put implements store.Tx.
func (tx *transaction) Put(kind store.ItemKind, key, value []byte, was, is store.Found) {
	t := tableOf(kind)
	tx.stage(t.appendRecord(tx.scratch[:0], tx.user, key), staged{value: value})
	tx.refile(t, key, was, is)
	if kind == store.ItemQueue || kind == store.ItemFlowKey {
		tx.settings = append(tx.settings, setting{kind, string(key), value})
	}
}

// Delete implements store.Tx.
func (tx *transaction) Delete(kind store.ItemKind, key []byte, was store.Found) {
	t := tableOf(kind)
	tx.stage(t.appendRecord(tx.scratch[:0], tx.user, key), staged{deleted: true, at: t.counted != 0})
	tx.refile(t, key, was, store.Found{})
	if kind == store.ItemQueue || kind == store.ItemFlowKey {
		tx.settings = append(tx.settings, setting{kind: kind, name: string(key)})
	}
}

// DeleteBefore implements store.Tx.
func (tx *transaction) DeleteBefore(kind store.ItemKind, before []byte) {
	t := tableOf(kind)
	tx.cuts = append(tx.cuts, keyRange{t.appendRecordPrefix(nil, tx.user), t.appendRecord(nil, tx.user, before)})
}

// stage takes the key to be scratch.
func (tx *transaction) stage(key []byte, record staged) {
	tx.scratch = key
	text := string(key)
	if _, known := tx.records[text]; !known {
		tx.keys, tx.sorted = append(tx.keys, text), false
	}
	tx.records[text] = record
}

// inOrder returns the keys of the staged records in order.
func (tx *transaction) inOrder() []string {
	if !tx.sorted {
		slices.Sort(tx.keys)
		tx.sorted = true
	}
	return tx.keys
}

// refile changes what a record is found by.
func (tx *transaction) refile(t *table, key []byte, was, is store.Found) {
	if !sameMilli(was.DueAt, is.DueAt) {
		if !was.DueAt.IsZero() {
			tx.stage(t.appendDue(tx.scratch[:0], was.DueAt, tx.user, key), staged{deleted: true})
		}
		if !is.DueAt.IsZero() {
			tx.stage(t.appendDue(tx.scratch[:0], is.DueAt, tx.user, key), staged{})
		}
	}
	for _, term := range was.Terms {
		if !slices.Contains(is.Terms, term) {
			tx.stage(t.appendPosting(tx.scratch[:0], tx.user, term, key), staged{deleted: true, at: true})
		}
	}
	for _, term := range is.Terms {
		if !slices.Contains(was.Terms, term) {
			tx.stage(t.appendPosting(tx.scratch[:0], tx.user, term, key), staged{})
		}
	}
}

func sameMilli(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.UnixMilli() == b.UnixMilli()
}

// Count implements store.Tx. Bytes are measured when they are asked for.
func (tx *transaction) Count(of store.RecordKey, entries, _ int) {
	tx.counts = append(tx.counts, counted{tableOf(of.Kind).counted, int64(entries)})
}

// Log implements store.Tx.
func (tx *transaction) Log(m *posthaste.Message, event posthaste.Event) posthaste.Position {
	event.Position, event.MessageID = tx.NextPosition(m.ID.Slot()), m.ID
	tx.events = append(tx.events, logged{m, event})
	return event.Position
}

// Accept implements store.Tx.
func (tx *transaction) Accept(m *posthaste.Message, place store.Place) {
	st := newStatus(m, &place)
	tx.addPlace(placed{id: m.ID, message: m, lane: laneOf(m), before: st, now: st, accepted: true})
}

// addPlace returns the place as it is kept, until the next one is added.
func (tx *transaction) addPlace(p placed) *placed {
	tx.placeOf[p.id] = len(tx.places)
	tx.places = append(tx.places, p)
	return &tx.places[len(tx.places)-1]
}

// Save implements store.Tx.
func (tx *transaction) Save(m *posthaste.Message, place *store.Place) {
	p, err := tx.place(m.ID)
	if err != nil {
		tx.err = errors.Join(tx.err, err)
		return
	}
	if p.message == nil {
		p.message, p.lane = m, laneOf(m)
	}
	p.now, p.lease, p.saved = p.now.at(place), place.Lease, true
}

// write writes all that was staged. It cannot fail.
func (tx *transaction) write() {
	tx.writeSettings()
	tx.writeRecords()
	for _, n := range tx.counts {
		tx.c.count(appendCountKey(tx.c.key(), n.part, tx.user), n.change)
	}
	for _, e := range tx.events {
		tx.c.addEvent(e.message, e.event)
	}
	for i := range tx.places {
		switch p := &tx.places[i]; {
		case p.accepted:
			tx.writeMessage(p)
		case p.saved:
			tx.writePlace(p)
		}
	}
}

// writeRecords deletes first: one range may stand for many records, and have new ones in it.
func (tx *transaction) writeRecords() {
	for _, cut := range tx.cuts {
		if found, err := anyIn(tx.c.records(), cut); found || err != nil { // else it would only cost
			_ = tx.c.writableRecords().DeleteRange(cut.from, cut.to, nil)
		}
	}
	var set string // from which positions are removed
	var removed []posthaste.Position
	remove := func() {
		if len(removed) > 0 {
			postings.Delete(tx.c.records(), tx.c.writableRecords(), []byte(set), removed)
			removed = removed[:0]
		}
	}
	for _, key := range tx.inOrder() {
		switch r := tx.records[key]; {
		case r.deleted && r.at:
			end := len(key) - 8
			if key[:end] != set {
				remove()
				set = key[:end]
			}
			at, _ := parsePosition([]byte(key[end:]))
			removed = append(removed, at)
		case r.deleted:
			tx.c.deleteRecord([]byte(key))
		}
	}
	remove()
	for _, key := range tx.keys {
		if r := tx.records[key]; !r.deleted {
			tx.c.setRecord([]byte(key), r.value)
		}
	}
}

// writeSettings hands the scheduler the settings of queues and flow-control keys once they are durable. A window
// that was replaced counts at once if it is in memory: see scheduler.ResetWindow.
func (tx *transaction) writeSettings() {
	scheduler, user := tx.store.scheduler, tx.user
	for _, set := range tx.settings {
		switch {
		case set.kind == store.ItemQueue:
			queue := noQueue(set.name)
			if set.value != nil {
				queue, _ = record.DecodeQueue(set.name, set.value)
			}
			tx.c.after(func() { scheduler.ChangeQueue(user, queue) })
		case set.value == nil:
			tx.c.after(func() { scheduler.ChangeFlowKey(user, posthaste.FlowKey{Key: set.name}, true) })
		default:
			tx.writeFlowKey(set)
		}
	}
}

func (tx *transaction) writeFlowKey(set setting) {
	scheduler, user := tx.store.scheduler, tx.user
	before, told := tx.windows[set.name]
	if !told {
		_, _ = tx.getBelow(store.ItemFlowKey, []byte(set.name))
		before = tx.windows[set.name]
	}
	key, err := record.DecodeFlowKey(set.name, set.value)
	if err != nil {
		return // it cannot be: it was encoded just now
	}
	window := flow.WindowOf(key)
	tx.windows[set.name] = window
	reset := !sameWindow(window, before) && !scheduler.ResetWindow(user, set.name, window) // else it goes on from now
	tx.c.after(func() { scheduler.ChangeFlowKey(user, *key, reset) })
}

// writeMessage writes a new message, and adds it to its lane when that is durable.
func (tx *transaction) writeMessage(p *placed) {
	c, m, s := tx.c, p.message, tx.store.scheduler
	c.encoded = appendEnvelope(c.encoded[:0], m)
	c.set(appendMessageKey(c.key(), segmentEnvelope, m.User, m.ID), c.encoded)
	if len(m.Body) >= largeBody && !isEntry(m) {
		c.set(appendMessageKey(c.key(), segmentBody, m.User, m.ID), m.Body)
	}
	c.setStatus(m, p.now)
	if p.now.inLane() {
		c.setPlace(p.lane, m.ID, &p.now)
		tx.recount(p.lane, lanes.Uncounted, p.now.class())
		lane, it := p.lane, newItem(m, p.now)
		c.after(func() { s.Add(lane, it) })
	}
}

// writePlace writes where a message stands, as far as that has changed, and lets the scheduler know
// when it is durable.
func (tx *transaction) writePlace(p *placed) {
	s, stays := tx.store.scheduler, p.now.inLane()
	if p.now != p.before {
		tx.writeStatus(p)
	} else if p.claim == nil {
		return // nothing has happened
	}
	if p.claim != nil && p.lease == p.claim.Token {
		s.RequestCancel(p.claim, p.now.CancelRequested)
		return
	}
	var again *lanes.Item
	if stays {
		again = newItem(p.message, p.now)
	}
	claim, lane, from := p.claim, p.lane, p.spot()
	switch {
	case claim != nil:
		if s.BeginSettle(p.id, claim.Token) != nil {
			tx.c.after(func() { s.EndSettle(claim, again) })
		}
	case p.held, p.before.inLane() && !stays:
		p.held = false
		tx.c.after(func() { s.Move(lane, from, again) })
	}
}

func (tx *transaction) writeStatus(p *placed) {
	c, to := tx.c, lanes.Spot{Order: p.now.order, ID: p.id}
	c.setStatus(p.message, p.now)
	tx.recount(p.lane, p.before.class(), p.now.class())
	if p.before.inLane() && (!p.now.inLane() || to != p.spot()) {
		c.delete(appendWaitingKey(c.key(), p.lane, p.spot()))
	}
	if p.now.inLane() {
		c.setPlace(p.lane, p.id, &p.now)
	}
}

// recount lets the scheduler know how many messages a lane has, when that is durable.
func (tx *transaction) recount(lane lanes.ID, before, now lanes.Class) {
	if before == now {
		return
	}
	c, s := tx.c, tx.store.scheduler
	if len(c.lengths) == 0 {
		c.after(func() { s.Recount(c.lengths) })
	}
	c.lengths = append(c.lengths, lanes.Change{Lane: lane, Before: before, Now: now})
}
