package lsm

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// commit is what becomes durable together: the writes of some operations, the
// events they added to the log, and what is to happen once the disk has them.
type commit struct {
	*overlay
	db      *pebble.DB
	batch   *pebble.Batch
	last    posthaste.Position
	ops     []*op // that succeeded so far
	effects []func()
	scratch [512]byte

	runBatch *pebble.Batch // what belongs to runs, readable; nil if there is nothing

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
	log         logWriter
	states      map[messageID]status // also those only read
	secrets     map[string]string
	dedups      map[string][]byte                // by key
	documents   map[string]any                   // by key; also those only loaded
	deadLetters map[posthaste.DeadLetterID]bool  // removed
	messages    map[messageID]*posthaste.Message // of runs
	tallies     map[string]*tally                // by key
}

func newOverlay() *overlay {
	return &overlay{
		states:      map[messageID]status{},
		secrets:     map[string]string{},
		dedups:      map[string][]byte{},
		documents:   map[string]any{},
		deadLetters: map[posthaste.DeadLetterID]bool{},
		messages:    map[messageID]*posthaste.Message{},
		tallies:     map[string]*tally{},
	}
}

// emptied returns an empty overlay: the same one, whose maps need not grow again,
// unless they are so large that to empty them would take longer.
func (o *overlay) emptied() *overlay {
	const large = 2048 // entries
	if len(o.log.postings) > large || len(o.documents) > large || len(o.tallies) > large {
		return newOverlay()
	}
	o.log.empty()
	clear(o.states)
	clear(o.secrets)
	clear(o.dedups)
	clear(o.documents)
	clear(o.deadLetters)
	clear(o.messages)
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
	if err := o.apply(c); err != nil {
		o.answer(err)
		return
	}
	c.ops = append(c.ops, o)
}

// after registers what is to happen when the commit is durable.
func (c *commit) after(effect func()) { c.effects = append(c.effects, effect) }

// set and delete write to the batch. They cannot fail: a batch grows in memory
// and reports its errors when it is applied.
func (c *commit) set(key, value []byte) { _ = c.batch.Set(key, value, nil) }
func (c *commit) delete(key []byte)     { _ = c.batch.Delete(key, nil) }

// key returns an empty buffer to build a key in. It is good until the next call.
func (c *commit) key() []byte { return c.scratch[:0] }

// setStatus writes a message's status.
func (c *commit) setStatus(m *posthaste.Message, st status) {
	c.states[messageID{m.User, m.ID}] = st
	c.set(appendMessageKey(c.key(), segmentStatus, m.User, m.ID), st.append(nil))
}

// status returns a message's status as of this commit, or store.ErrNotFound. Once
// read it can be read again without an error.
func (c *commit) status(user string, id posthaste.MessageID) (status, error) {
	key := messageID{user, id}
	if st, ok := c.states[key]; ok {
		return st, nil
	}
	st, err := readStatus(c.db, user, id)
	if err == nil {
		c.states[key] = st
	}
	return st, err
}

// message returns a message as of this commit, or store.ErrNotFound.
func (c *commit) message(user string, id posthaste.MessageID) (*posthaste.Message, error) {
	if m := c.messages[messageID{user, id}]; m != nil {
		return m, nil
	}
	return readMessage(c.db, user, id)
}

// runs returns what belongs to runs as of this commit. Rules of runs read much of
// what they wrote a moment before, so their writes go through a batch that can be
// read.
func (c *commit) runs() pebble.Reader {
	if c.runBatch == nil {
		return c.db
	}
	return c.runBatch
}

// setRun and deleteRun write what belongs to runs.
func (c *commit) setRun(key, value []byte) { _ = c.writableRuns().Set(key, value, nil) }
func (c *commit) deleteRun(key []byte)     { _ = c.writableRuns().Delete(key, nil) }

func (c *commit) writableRuns() *pebble.Batch {
	if c.runBatch == nil {
		c.runBatch = c.db.NewIndexedBatch()
	}
	return c.runBatch
}

// size returns how many bytes the commit will write, its log left out.
func (c *commit) size() int {
	if c.runBatch == nil {
		return c.batch.Len()
	}
	return c.batch.Len() + c.runBatch.Len()
}

// joinRuns makes one batch of the two.
func (c *commit) joinRuns() error {
	if c.runBatch == nil {
		return nil
	}
	return errors.Join(c.batch.Apply(c.runBatch, nil), c.runBatch.Close())
}

// messageID is the id of a message of a user.
type messageID struct {
	user string
	id   posthaste.MessageID
}

// peek returns the position that the n-th event added from here on will get.
func (c *commit) peek(now time.Time, n int) posthaste.Position {
	return c.last.Next(now) + posthaste.Position(n-1)
}

// event gives an event the next position and adds it to the log.
func (c *commit) event(m *posthaste.Message, now time.Time, event posthaste.Event) posthaste.Position {
	c.last = c.last.Next(now)
	event.Position = c.last
	c.addEvent(m, event)
	return c.last
}

// addEvent adds an event at the position it has, which is above all of its user's.
func (c *commit) addEvent(m *posthaste.Message, event posthaste.Event) {
	c.log.add(m, event)
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

// writeLog adds the log blocks and postings of all events to the batch.
func (c *commit) writeLog(dayIndex *dayIndexWriter) { c.log.flush(dayIndex, c.set) }
