package postgres

import (
	"cmp"
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
	kind   int16  // stored: never given to another
	thing  string // what one of them is, for errors
	name   func(*T) string
	encode func(dst []byte, value *T) []byte
	decode func(user, name string, data []byte) (*T, error)
	at     func(*T) *int64 // the time it is found by among all users; nil: never
}

func never[T any](*T) *int64 { return nil }

var queues = documents[posthaste.Queue]{
	kind:   1,
	thing:  "queue",
	name:   func(q *posthaste.Queue) string { return q.Name },
	encode: record.AppendQueue,
	decode: func(_, name string, data []byte) (*posthaste.Queue, error) { return record.DecodeQueue(name, data) },
	at:     never[posthaste.Queue],
}

var urlGroups = documents[posthaste.URLGroup]{
	kind:   2,
	thing:  "URL group",
	name:   func(g *posthaste.URLGroup) string { return g.Name },
	encode: record.AppendURLGroup,
	decode: func(_, name string, data []byte) (*posthaste.URLGroup, error) {
		return record.DecodeURLGroup(name, data)
	},
	at: never[posthaste.URLGroup],
}

var flowKeys = documents[posthaste.FlowKey]{
	kind:   3,
	thing:  "flow-control key",
	name:   func(k *posthaste.FlowKey) string { return k.Key },
	encode: record.AppendFlowKey,
	decode: func(_, name string, data []byte) (*posthaste.FlowKey, error) { return record.DecodeFlowKey(name, data) },
	at:     never[posthaste.FlowKey],
}

// Schedules are found by their next tick.
var schedules = documents[posthaste.Schedule]{
	kind:   4,
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
	kind:   5,
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
	stored() int16
	check(user, name string, data []byte, at *int64) error
	restore(*tx, store.Item) error
}{
	store.ItemQueue: &queues, store.ItemURLGroup: &urlGroups, store.ItemFlowKey: &flowKeys,
	store.ItemSchedule: &schedules, store.ItemAction: &actions,
}

func (d *documents[T]) stored() int16 { return d.kind }

// restore writes an exported document.
func (d *documents[T]) restore(tx *tx, item store.Item) error {
	value, err := d.decode(item.User, string(item.Key), item.Value)
	if err != nil {
		return err
	}
	tx.exec(`INSERT INTO posthaste.documents (user_id, kind, name, record, at) VALUES ($1, $2, $3, $4, $5)`,
		item.User, d.kind, item.Key, item.Value, d.at(value))
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

// scanNamed reads user, name and record. damage says why the record cannot be decoded.
func (d *documents[T]) scanNamed(r pgx.CollectableRow) (of name, value *T, damage, err error) {
	var id, data []byte
	if err = r.Scan(&of.user, &id, &data); err != nil {
		return of, nil, nil, err
	}
	of.name = string(id)
	value, damage = d.read(of.user, id, data)
	return of, value, damage, nil
}

// scan reads user, name and record.
func (d *documents[T]) scan(r pgx.CollectableRow) (*T, error) {
	_, value, damage, err := d.scanNamed(r)
	return value, cmp.Or(err, damage)
}

// byNames selects documents by users, kind and names.
func (d *documents[T]) byNames() string {
	return `
		SELECT user_id, name, record FROM unnest($1::text[], $3::bytea[]) AS wanted (user_id, name)
		JOIN posthaste.documents USING (user_id, name) WHERE kind = $2`
}

// get returns a document, or store.ErrNotFound.
func (d *documents[T]) get(ctx context.Context, q querier, user, name string) (*T, error) {
	return row(ctx, q, d.scan, `
		SELECT user_id, name, record FROM posthaste.documents
		WHERE user_id = $1 AND kind = $2 AND name = $3`, user, d.kind, []byte(name))
}

// list returns all documents of a user by name, or an error that names an unreadable one.
func (d *documents[T]) list(ctx context.Context, q querier, user string) ([]*T, error) {
	return rows(ctx, q, d.scan, `
		SELECT user_id, name, record FROM posthaste.documents
		WHERE user_id = $1 AND kind = $2 ORDER BY name`, user, d.kind)
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
		SELECT name, record, more FROM (
			SELECT name, record, lead(name) OVER (ORDER BY name) IS NOT NULL AS more,
				sum(octet_length(name) + octet_length(record) + $4::integer) OVER (ORDER BY name) AS upto, row_number() OVER (ORDER BY name) AS n
			FROM (
				SELECT name, record FROM posthaste.documents
				WHERE user_id = $1 AND kind = $2 AND name > $3 ORDER BY name LIMIT $5) AS first) AS sized
		WHERE upto <= $6 OR n = 1 ORDER BY name`, user, d.kind, []byte(after), listedOverhead, listedAtOnce, store.PageBytes)
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
		SELECT user_id, name, record, at FROM posthaste.documents
		WHERE kind = $1 AND at <= $2 AND (user_id = ANY($4)) IS NOT TRUE
		ORDER BY at, user_id, name LIMIT $3`, d.kind, at, limit, except)
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
	tx.writes++
	d.queuePut(tx.batch, user, value)
}

func (d *documents[T]) queuePut(batch *pgx.Batch, user string, value *T) {
	batch.Queue(`
		INSERT INTO posthaste.documents (user_id, kind, name, record, at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (user_id, kind, name) DO UPDATE SET record = excluded.record, at = excluded.at`,
		user, d.kind, []byte(d.name(value)), d.encode(nil, value), d.at(value))
}

// queueAdd writes a document unless it exists.
func (d *documents[T]) queueAdd(batch *pgx.Batch, user string, value *T) {
	batch.Queue(`
		INSERT INTO posthaste.documents (user_id, kind, name, record, at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT DO NOTHING`,
		user, d.kind, []byte(d.name(value)), d.encode(nil, value), d.at(value))
}

func (d *documents[T]) remove(tx *tx, user, name string) {
	tx.exec(`DELETE FROM posthaste.documents WHERE user_id = $1 AND kind = $2 AND name = $3`, user, d.kind, []byte(name))
}

// update changes a document, or fresh if it does not exist, and writes it.
func (d *documents[T]) update(tx *tx, user, name string, fresh *T, change func(*T) error) error {
	value, err := d.get(tx.ctx, tx, user, name)
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
