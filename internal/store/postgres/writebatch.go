package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// writeBatch holds rows to be written, each table's by one statement.
type writeBatch struct {
	accepted  []newMessage
	changed   []*liveMessage // in the order in which they were first changed
	finished  []*ending
	records   []*storedRecord
	terms     map[termOf]bool // to be added, or removed
	freedKeys map[name]bool   // flow-control keys that have capacity again
	log       logWriter
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
	return writeBatch{terms: map[termOf]bool{}, freedKeys: map[name]bool{}}
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
	writeFreedKeys(batch, b.freedKeys)
	b.accepted, b.changed, b.finished, b.records = nil, nil, nil, nil
	clear(b.terms)
	clear(b.freedKeys)
}

func writeLives(batch *pgx.Batch, changed []*liveMessage) {
	var fresh, old, gone []*liveMessage
	for _, l := range changed {
		switch {
		case !l.gone && !l.stored:
			fresh = append(fresh, l)
		case !l.gone:
			old = append(old, l)
		case l.stored:
			gone = append(gone, l)
		}
		l.stored, l.dirty = !l.gone, false
	}
	if len(gone) > 0 {
		batch.Queue(`
			DELETE FROM posthaste.live l USING unnest($1::text[], $2::uuid[]) AS r (user_id, id)
			WHERE l.user_id = r.user_id AND l.id = r.id`, liveKeys(gone)...)
	}
	if len(old) > 0 {
		batch.Queue(`
			UPDATE posthaste.live l SET place = r.place, due = r.due, state = r.state, retried = r.retried, begun = r.begun,
				ended = r.ended, callbacks = r.callbacks, cancel_requested = r.cancel, lease = r.lease, node = r.node
			FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[], $5::smallint[], $6::integer[], $7::boolean[],
					$8::boolean[], $9::integer[], $10::boolean[], $11::bigint[], $12::bigint[])
				AS r (user_id, id, place, due, state, retried, begun, ended, callbacks, cancel, lease, node)
			WHERE l.user_id = r.user_id AND l.id = r.id`, append(liveKeys(old), liveValues(old)...)...)
	}
	if len(fresh) > 0 {
		args := append(liveKeys(fresh), liveValues(fresh)...)
		args = append(args,
			column(fresh, func(l *liveMessage) int16 { return l.lane.kind }),
			column(fresh, func(l *liveMessage) []byte { return []byte(l.lane.name) }),
			column(fresh, func(l *liveMessage) []byte { return l.flowKey }))
		batch.Queue(`
			INSERT INTO posthaste.live (user_id, id, place, due, state, retried, begun, ended, callbacks, cancel_requested, lease, node, kind, lane, flow_key)
			SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[], $5::smallint[], $6::integer[], $7::boolean[],
				$8::boolean[], $9::integer[], $10::boolean[], $11::bigint[], $12::bigint[], $13::smallint[], $14::bytea[], $15::bytea[])`, args...)
	}
}

func liveKeys(rows []*liveMessage) []any {
	return []any{
		column(rows, func(l *liveMessage) string { return l.user }),
		column(rows, func(l *liveMessage) [16]byte { return l.id }),
	}
}

func liveValues(rows []*liveMessage) []any {
	return []any{
		column(rows, func(l *liveMessage) int64 { return int64(l.place) }),
		column(rows, func(l *liveMessage) int64 { return l.dueMS }),
		column(rows, func(l *liveMessage) int16 { return int16(record.StateCode(l.state)) }),
		column(rows, func(l *liveMessage) int { return l.retried }),
		column(rows, func(l *liveMessage) bool { return l.begun }),
		column(rows, func(l *liveMessage) bool { return l.ended }),
		column(rows, func(l *liveMessage) int { return l.callbacks }),
		column(rows, func(l *liveMessage) bool { return l.cancelRequested }),
		column(rows, func(l *liveMessage) int64 { return l.lease }),
		column(rows, func(l *liveMessage) int64 { return l.node }),
	}
}
