package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// gathered are rows to be written, those of each table by one statement.
type writeBatch struct {
	accepted  newMessages
	changed   []*liveMessage // in the order in which they were first changed
	finished  endings
	queues    map[name]*posthaste.Queue // that come into being unless they are there
	freedKeys map[name]bool             // flow-control keys under which there is some
	log       logWriter
}

func newWriteBatch() writeBatch {
	return writeBatch{queues: map[name]*posthaste.Queue{}, freedKeys: map[name]bool{}}
}

// newMessages are the columns of messages.
type newMessages struct {
	users   []string
	ids     [][16]byte
	records [][]byte
	lists   []int64
}

func (m *newMessages) add(added *posthaste.Message, record []byte) {
	m.users, m.ids, m.records = append(m.users, added.User), append(m.ids, added.ID), append(m.records, record)
	m.lists = append(m.lists, int64(store.DeliverySize(added)-store.MessageSize(added)))
}

// endings are the columns of ended.
type endings struct {
	users   []string
	ids     [][16]byte
	states  []int16
	retried []int32
}

func (e *endings) add(l *liveMessage) {
	e.users, e.ids = append(e.users, l.user), append(e.ids, l.id)
	e.states = append(e.states, int16(record.StateCode(l.state)))
	e.retried = append(e.retried, int32(l.retried))
}

// write writes everything but the log, and forgets it.
func (g *writeBatch) write(batch *pgx.Batch) {
	if m := &g.accepted; len(m.ids) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.messages (user_id, id, record, list_bytes)
			SELECT * FROM unnest($1::text[], $2::uuid[], $3::bytea[], $4::bigint[])`, m.users, m.ids, m.records, m.lists)
	}
	writeLives(batch, g.changed)
	if e := &g.finished; len(e.ids) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.ended (user_id, id, state, retried)
			SELECT * FROM unnest($1::text[], $2::uuid[], $3::smallint[], $4::integer[])`, e.users, e.ids, e.states, e.retried)
	}
	for of, queue := range g.queues {
		queues.queueAdd(batch, of.user, queue)
	}
	writeFreedKeys(batch, g.freedKeys)
	g.accepted, g.changed, g.finished = newMessages{}, nil, endings{}
	clear(g.queues)
	clear(g.freedKeys)
}
