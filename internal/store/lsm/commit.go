package lsm

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/record"
)

// commit is what becomes durable together: the writes of some operations, the
// events they added to the log, and what happens once the disk has them.
type commit struct {
	*overlay
	db      *pebble.DB
	batch   *pebble.Batch
	last    posthaste.Position
	ops     []*op // that succeeded so far
	effects []func()
	lengths []lanes.Change // of lanes
	scratch [512]byte

	recordBatch *pebble.Batch // the records, readable; nil if there are none

	followed bool          // somebody follows the log
	latest   []store.Entry // if so, the events

	started time.Time
	number  uint64 // of all commits there ever were
	begun   bool   // handed to the storage engine
	err     error
}

// overlay is what operations of a commit wrote, for those that come after. It is of
// use only while the commit is built.
type overlay struct {
	log     index.LogWriter
	states  map[messageID]known // also those only read
	tallies map[string]*tally   // by key
	tx      transaction         // of the present operation
	encoded []byte              // scratch for a value
}

// known is what is known of a message.
type known struct {
	status
	message *posthaste.Message // nil if it was only read where it stands
}

func newOverlay() *overlay {
	return &overlay{
		states:  map[messageID]known{},
		tallies: map[string]*tally{},
	}
}

// emptied returns an empty overlay: the same one, whose maps need not grow again,
// unless they are so large that to empty them would take longer.
func (o *overlay) emptied() *overlay {
	const large, long = 2048, 64 << 10 // entries, bytes
	if len(o.log.Postings) > large || len(o.log.Counts) > large || len(o.tallies) > large || cap(o.encoded) > long {
		return newOverlay()
	}
	o.log.Reset()
	clear(o.states)
	clear(o.tallies)
	return o
}

// newCommit returns an empty commit that begins after a position. The overlay is
// empty too, and no other commit's.
func newCommit(db *pebble.DB, last posthaste.Position, o *overlay) *commit {
	return &commit{overlay: o, db: db, batch: db.NewBatch(), last: last}
}

// run applies one operation. One that fails is answered at once.
func (c *commit) run(o *op) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		return
	}
	if err := o.apply(c); err != nil {
		o.answer(err)
		return
	}
	c.ops = append(c.ops, o)
}

// after registers a function to call when the commit is durable.
func (c *commit) after(effect func()) { c.effects = append(c.effects, effect) }

// set and delete write to the batch. They cannot fail: a batch grows in memory
// and reports its errors when it is applied.
func (c *commit) set(key, value []byte) { _ = c.batch.Set(key, value, nil) }
func (c *commit) delete(key []byte)     { _ = c.batch.Delete(key, nil) }

// key returns an empty buffer to build a key in. It is good until the next call.
func (c *commit) key() []byte { return c.scratch[:0] }

// setStatus writes a message's status.
func (c *commit) setStatus(m *posthaste.Message, st status) {
	c.states[messageID{m.User, m.ID}] = known{st, m}
	c.encoded = st.append(c.encoded[:0])
	c.set(appendMessageKey(c.key(), segmentStatus, m.User, m.ID), c.encoded)
}

// setPlace writes a message's place in its lane.
func (c *commit) setPlace(lane lanes.ID, id posthaste.MessageID, st *status) {
	c.encoded = appendWaiting(c.encoded[:0], &st.Waiting)
	c.set(appendWaitingKey(c.key(), lane, lanes.Spot{Order: st.order, ID: id}), c.encoded)
}

// status returns a message's status as of this commit, or store.ErrNotFound. Once
// read it can be read again without an error.
func (c *commit) status(user string, id posthaste.MessageID) (status, error) {
	key := messageID{user, id}
	if found, ok := c.states[key]; ok {
		return found.status, nil
	}
	st, err := readStatus(c.db, user, id)
	if err == nil {
		c.states[key] = known{status: st}
	}
	return st, err
}

// message returns a message as of this commit, or store.ErrNotFound.
func (c *commit) message(user string, id posthaste.MessageID) (*posthaste.Message, error) {
	if m := c.states[messageID{user, id}].message; m != nil {
		return m, nil
	}
	return readMessage(c.records(), user, id)
}

// records returns the records as of this commit. Rules read much of what was written a
// moment before, so writes of records go through a batch that can be read.
func (c *commit) records() pebble.Reader {
	if c.recordBatch == nil {
		return c.db
	}
	return c.recordBatch
}

// setRecord and deleteRecord write a record, or a key that it is found by.
func (c *commit) setRecord(key, value []byte) { _ = c.writableRecords().Set(key, value, nil) }
func (c *commit) deleteRecord(key []byte)     { _ = c.writableRecords().Delete(key, nil) }

func (c *commit) writableRecords() *pebble.Batch {
	if c.recordBatch == nil {
		c.recordBatch = c.db.NewIndexedBatch()
	}
	return c.recordBatch
}

// size returns how many bytes the commit will write, its log left out.
func (c *commit) size() int {
	if c.recordBatch == nil {
		return c.batch.Len()
	}
	return c.batch.Len() + c.recordBatch.Len()
}

// joinRecords makes one batch of the two.
func (c *commit) joinRecords() error {
	if c.recordBatch == nil {
		return nil
	}
	return errors.Join(c.batch.Apply(c.recordBatch, nil), c.recordBatch.Close())
}

// messageID is the id of a message of a user.
type messageID struct {
	user string
	id   posthaste.MessageID
}

// event gives an event the next position and adds it to the log.
func (c *commit) event(m *posthaste.Message, now time.Time, event posthaste.Event) posthaste.Position {
	c.last = c.last.Next(now, m.ID.Slot())
	event.Position = c.last
	c.addEvent(m, event)
	return c.last
}

// addEvent adds an event at the position it has, which is above all of its user's.
func (c *commit) addEvent(m *posthaste.Message, event posthaste.Event) {
	c.log.Add(m, &event)
	if c.followed {
		c.latest = append(c.latest, store.NewEntry(event, m))
	}
	if d := dayOf(event.Position.Time()); d != dayOf(m.ID.CreatedAt()) {
		c.set(append(appendSegment(c.key(), d, segmentOlder, m.User), m.ID[:]...), nil)
	}
	if event.Response != nil {
		c.set(appendPositionKey(c.key(), segmentResponse, m.User, event.Position), record.AppendResponse(nil, event.Response))
	}
}

// writeLog adds the blocks and postings of all events to the batch.
func (c *commit) writeLog(dayIndex *dayIndexWriter) {
	for i := range c.log.Blocks {
		b := &c.log.Blocks[i]
		dayIndex.note(postingID{b.User, dayOf(b.First.Time()), index.Any}, c.set)
		c.set(appendPositionKey(c.key(), segmentLog, b.User, b.First), b.Data)
	}
	for i := range c.log.Postings {
		p := &c.log.Postings[i]
		id := postingID{p.User, dayOf(p.First.Time()), p.Term}
		dayIndex.note(id, c.set)
		c.set(binary.BigEndian.AppendUint64(appendPostingPrefix(c.key(), id.day, id.user, id.term), uint64(p.First)), p.Gaps)
	}
}

// each returns what of makes of each value.
func each[T, U any](values []T, of func(T) U) []U {
	all := make([]U, len(values))
	for i, value := range values {
		all[i] = of(value)
	}
	return all
}
