package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// documents are records that users have by name.
type documents[T any] struct {
	kind   store.ItemKind
	thing  string // what one of them is, for errors
	name   func(*T) string
	encode func(dst []byte, value *T) []byte
	decode func(user, name string, data []byte) (*T, error)
	at     func(*T) *int64 // the time it is found by among all users; nil: never
}

func never[T any](*T) *int64 { return nil }

var queues = documents[posthaste.Queue]{
	kind:   store.ItemQueue,
	thing:  "queue",
	name:   func(q *posthaste.Queue) string { return q.Name },
	encode: record.AppendQueue,
	decode: func(_, name string, data []byte) (*posthaste.Queue, error) { return record.DecodeQueue(name, data) },
	at:     never[posthaste.Queue],
}

var flowKeys = documents[posthaste.FlowKey]{
	kind:   store.ItemFlowKey,
	thing:  "flow-control key",
	name:   func(k *posthaste.FlowKey) string { return k.Key },
	encode: record.AppendFlowKey,
	decode: func(_, name string, data []byte) (*posthaste.FlowKey, error) { return record.DecodeFlowKey(name, data) },
	at:     never[posthaste.FlowKey],
}

var schedules = documents[posthaste.Schedule]{
	kind:   store.ItemSchedule,
	thing:  "schedule",
	name:   func(s *posthaste.Schedule) string { return s.ID },
	encode: record.AppendSchedule,
	decode: record.DecodeSchedule,
	at:     func(s *posthaste.Schedule) *int64 { return milli(index.Schedule(s).DueAt) },
}

var actions = documents[posthaste.BulkAction]{
	kind:   store.ItemAction,
	thing:  "bulk action",
	name:   func(a *posthaste.BulkAction) string { return a.ID },
	encode: record.AppendAction,
	decode: record.DecodeAction,
	at:     func(a *posthaste.BulkAction) *int64 { return milli(index.Action(a).DueAt) },
}

// read decodes a document. An error names it.
func (d *documents[T]) read(user string, name, data []byte) (*T, error) {
	value, err := d.decode(user, string(name), data)
	if err != nil {
		return nil, fmt.Errorf("%s %q of user %q: %w", d.thing, name, user, err)
	}
	return value, nil
}

// getIn returns a document, or store.ErrNotFound.
func (d *documents[T]) getIn(tx *tx, user, name string) (*T, error) {
	data, err := tx.record(tx.ctx, tx, recordOf{user, d.kind, name})
	if err != nil {
		return nil, err
	}
	return d.read(user, []byte(name), data)
}

func (d *documents[T]) put(tx *tx, user string, value *T) {
	tx.putRecord(recordOf{user, d.kind, d.name(value)}, d.encode(nil, value), d.at(value))
}

// queueAdd writes a document unless it exists.
func (d *documents[T]) queueAdd(batch *pgx.Batch, user string, value *T) {
	batch.Queue(`
		INSERT INTO posthaste.records (user_id, kind, key, value, due) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT DO NOTHING`,
		user, d.kind, []byte(d.name(value)), d.encode(nil, value), d.at(value))
}

func (d *documents[T]) remove(tx *tx, user, name string) {
	tx.deleteRecord(recordOf{user, d.kind, name})
}
