package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
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

var urlGroups = documents[posthaste.URLGroup]{
	kind:   store.ItemURLGroup,
	thing:  "URL group",
	name:   func(g *posthaste.URLGroup) string { return g.Name },
	encode: record.AppendURLGroup,
	decode: func(_, name string, data []byte) (*posthaste.URLGroup, error) {
		return record.DecodeURLGroup(name, data)
	},
	at: never[posthaste.URLGroup],
}

var flowKeys = documents[posthaste.FlowKey]{
	kind:   store.ItemFlowKey,
	thing:  "flow-control key",
	name:   func(k *posthaste.FlowKey) string { return k.Key },
	encode: record.AppendFlowKey,
	decode: func(_, name string, data []byte) (*posthaste.FlowKey, error) { return record.DecodeFlowKey(name, data) },
	at:     never[posthaste.FlowKey],
}

// Schedules are found by their next tick.
var schedules = documents[posthaste.Schedule]{
	kind:   store.ItemSchedule,
	thing:  "schedule",
	name:   func(s *posthaste.Schedule) string { return s.ID },
	encode: record.AppendSchedule,
	decode: record.DecodeSchedule,
	at: func(s *posthaste.Schedule) *int64 {
		if s.Paused {
			return nil
		}
		return milli(s.NextAt)
	},
}

// Actions are found by their completion time, unfinished ones by 0.
var actions = documents[posthaste.BulkAction]{
	kind:   store.ItemAction,
	thing:  "bulk action",
	name:   func(a *posthaste.BulkAction) string { return a.ID },
	encode: record.AppendAction,
	decode: record.DecodeAction,
	at: func(a *posthaste.BulkAction) *int64 {
		if a.Finished() {
			return milli(a.CompletedAt)
		}
		return new(int64)
	},
}

var documentsOf = map[store.ItemKind]interface {
	check(user, name string, data []byte, at *int64) error
	restore(*tx, store.Item) error
}{
	store.ItemQueue: &queues, store.ItemURLGroup: &urlGroups, store.ItemFlowKey: &flowKeys,
	store.ItemSchedule: &schedules, store.ItemAction: &actions,
}

// restore writes an exported document.
func (d *documents[T]) restore(tx *tx, item store.Item) error {
	value, err := d.decode(item.User, string(item.Key), item.Value)
	if err != nil {
		return err
	}
	tx.putRecord(recordOf{item.User, d.kind, string(item.Key)}, item.Value, d.at(value))
	return nil
}

// read decodes a document. An error names it.
func (d *documents[T]) read(user string, name, data []byte) (*T, error) {
	value, err := d.decode(user, string(name), data)
	if err != nil {
		return nil, fmt.Errorf("%s %q of user %q: %w", d.thing, name, user, err)
	}
	return value, nil
}

// scan reads user, name and record.
func (d *documents[T]) scan(r pgx.CollectableRow) (*T, error) {
	var user string
	var name, data []byte
	if err := r.Scan(&user, &name, &data); err != nil {
		return nil, err
	}
	return d.read(user, name, data)
}

// get returns a document, or store.ErrNotFound.
func (d *documents[T]) get(ctx context.Context, q querier, user, name string) (*T, error) {
	return row(ctx, q, d.scan, `
		SELECT user_id, key, value FROM posthaste.records
		WHERE user_id = $1 AND kind = $2 AND key = $3`, user, d.kind, []byte(name))
}

// getIn is get within a transaction.
func (d *documents[T]) getIn(tx *tx, user, name string) (*T, error) {
	data, err := tx.record(tx.ctx, tx, recordOf{user, d.kind, name})
	if err != nil {
		return nil, err
	}
	return d.read(user, []byte(name), data)
}

// list returns all documents of a user by name, or an error that names an unreadable one.
func (d *documents[T]) list(ctx context.Context, q querier, user string) ([]*T, error) {
	return rows(ctx, q, d.scan, `
		SELECT user_id, key, value FROM posthaste.records
		WHERE user_id = $1 AND kind = $2 ORDER BY key`, user, d.kind)
}

// listedAtOnce and listedOverhead bound a page: its documents, and the memory of each beside
// its record.
const (
	listedAtOnce   = 10_000
	listedOverhead = 512
)

// page returns documents of a user whose names come after one, up to a page's byte limit.
func (d *documents[T]) page(ctx context.Context, q querier, user, after string) (list store.List[*T], err error) {
	more := false
	list.Items, err = rows(ctx, q, func(r pgx.CollectableRow) (*T, error) {
		var name, data []byte
		if err := r.Scan(&name, &data, &more); err != nil {
			return nil, err
		}
		return d.read(user, name, data)
	}, `
		SELECT key, value, more FROM (
			SELECT key, value, lead(key) OVER (ORDER BY key) IS NOT NULL AS more,
				sum(octet_length(key) + octet_length(value) + $4::integer) OVER (ORDER BY key) AS upto, row_number() OVER (ORDER BY key) AS n
			FROM (
				SELECT key, value FROM posthaste.records
				WHERE user_id = $1 AND kind = $2 AND key > $3 ORDER BY key LIMIT $5) AS first) AS sized
		WHERE upto <= $6 OR n = 1 ORDER BY key`, user, d.kind, []byte(after), listedOverhead, listedAtOnce, store.PageBytes)
	if err != nil {
		return store.List[*T]{}, err
	}
	if n := len(list.Items); n > 0 && (more || n == listedAtOnce) {
		list.Next = d.name(list.Items[n-1])
	}
	return list, nil
}

// dated is a document found by its time, or why it cannot be decoded.
type dated[T any] struct {
	at     int64
	value  *T
	damage error
}

// dueBy returns the first documents up to a time, earliest first, of all users except some.
func (d *documents[T]) dueBy(ctx context.Context, q querier, at int64, limit int, except ...string) ([]dated[T], error) {
	return rows(ctx, q, d.scanDated, `
		SELECT user_id, key, value, due FROM posthaste.records
		WHERE kind = $1 AND due <= $2 AND (user_id = ANY($4)) IS NOT TRUE
		ORDER BY due, user_id, key LIMIT $3`, d.kind, at, limit, except)
}

func (d *documents[T]) scanDated(r pgx.CollectableRow) (found dated[T], err error) {
	var user string
	var name, data []byte
	if err := r.Scan(&user, &name, &data, &found.at); err != nil {
		return found, err
	}
	found.value, found.damage = d.read(user, name, data)
	return found, nil
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

// update changes a document, or fresh if it does not exist, and writes it.
func (d *documents[T]) update(tx *tx, user, name string, fresh *T, change func(*T) error) error {
	value, err := d.getIn(tx, user, name)
	if errors.Is(err, store.ErrNotFound) {
		value, err = fresh, nil
	}
	if err != nil {
		return err
	}
	if err := change(value); err != nil {
		return err
	}
	d.put(tx, user, value)
	return nil
}

// stamp sets the time of a change, and of the creation if it is unset.
func stamp(now time.Time, created, updated *time.Time) {
	if *updated = now; created.IsZero() {
		*created = now
	}
}
