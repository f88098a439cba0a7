package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// writeBatch holds rows to be written, each table's by one statement.
type writeBatch struct {
	accepted []newMessage
	changed  []*liveMessage // in the order in which they were first changed
	finished []*ending
	records  []*storedRecord
	terms    map[termOf]bool // to be added, or removed
	log      logWriter
}

// newMessage is a row of messages.
type newMessage struct {
	messageOf
	record []byte
	list   int64 // bytes of the run's list
}

func newMessageRow(m *posthaste.Message, record []byte) newMessage {
	return newMessage{messageOf{m.User, m.ID}, record, int64(store.DeliverySize(m) - store.MessageSize(m))}
}

// ending is a row of ended.
type ending struct {
	messageOf
	state   posthaste.State
	retried int
}

func newWriteBatch() writeBatch {
	return writeBatch{terms: map[termOf]bool{}}
}

// column returns one value of each row, for unnest.
func column[T, C any](rows []T, of func(T) C) []C {
	values := make([]C, len(rows))
	for i, row := range rows {
		values[i] = of(row)
	}
	return values
}

func uuids(ids []posthaste.MessageID) [][16]byte {
	return column(ids, func(id posthaste.MessageID) [16]byte { return id })
}

// write writes all but the log, and clears the batch.
func (b *writeBatch) write(batch *pgx.Batch) {
	if m := b.accepted; len(m) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.messages (user_id, id, record, list_bytes)
			SELECT * FROM unnest($1::text[], $2::uuid[], $3::bytea[], $4::bigint[])`,
			column(m, func(m newMessage) string { return m.user }),
			column(m, func(m newMessage) [16]byte { return m.id }),
			column(m, func(m newMessage) []byte { return m.record }),
			column(m, func(m newMessage) int64 { return m.list }))
	}
	writeLives(batch, b.changed)
	if e := b.finished; len(e) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.ended (user_id, id, state, retried)
			SELECT * FROM unnest($1::text[], $2::uuid[], $3::smallint[], $4::integer[])`,
			column(e, func(e *ending) string { return e.user }),
			column(e, func(e *ending) [16]byte { return e.id }),
			column(e, func(e *ending) int16 { return int16(record.StateCode(e.state)) }),
			column(e, func(e *ending) int { return e.retried }))
	}
	writeRecords(batch, b.records)
	writeTerms(batch, b.terms)
	b.accepted, b.changed, b.finished, b.records = nil, nil, nil, nil
	clear(b.terms)
}

// writeLives writes rows of live. Known rows are written by an upsert like new ones, not by a join
// with what is written, which PostgreSQL may plan as a scan.
func writeLives(batch *pgx.Batch, changed []*liveMessage) {
	var put, gone []*liveMessage
	for _, l := range changed {
		switch {
		case !l.gone:
			put = append(put, l)
		case l.stored:
			gone = append(gone, l)
		}
		l.stored, l.dirty = !l.gone, false
	}
	if len(gone) > 0 {
		users, ids := messageColumns(column(gone, (*liveMessage).of))
		batch.Queue(deleteLives, users, ids)
	}
	if len(put) > 0 {
		batch.Queue(`
			INSERT INTO posthaste.live AS l (`+liveColumns+`)
			SELECT * FROM unnest($1::text[], $2::uuid[], $3::smallint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::smallint[], $8::integer[],
				$9::boolean[], $10::boolean[], $11::integer[], $12::boolean[], $13::bigint[], $14::bigint[], $15::bytea[])
			ON CONFLICT (user_id, id) DO UPDATE SET place = excluded.place, due = excluded.due, state = excluded.state, retried = excluded.retried,
				begun = excluded.begun, ended = excluded.ended, callbacks = excluded.callbacks, cancel_requested = excluded.cancel_requested,
				lease = excluded.lease, node = excluded.node`,
			column(put, func(l *liveMessage) string { return l.user }),
			column(put, func(l *liveMessage) [16]byte { return l.id }),
			column(put, func(l *liveMessage) int16 { return l.lane.kind }),
			column(put, func(l *liveMessage) []byte { return []byte(l.lane.name) }),
			column(put, func(l *liveMessage) int64 { return int64(l.place) }),
			column(put, func(l *liveMessage) int64 { return l.dueMS }),
			column(put, func(l *liveMessage) int16 { return int16(record.StateCode(l.state)) }),
			column(put, func(l *liveMessage) int { return l.retried }),
			column(put, func(l *liveMessage) bool { return l.begun }),
			column(put, func(l *liveMessage) bool { return l.ended }),
			column(put, func(l *liveMessage) int { return l.callbacks }),
			column(put, func(l *liveMessage) bool { return l.cancelRequested }),
			column(put, func(l *liveMessage) int64 { return l.lease }),
			column(put, func(l *liveMessage) int64 { return l.node }),
			column(put, func(l *liveMessage) []byte { return l.flowKey }))
	}
}
