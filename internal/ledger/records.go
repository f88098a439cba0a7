package ledger

import (
	"errors"
	"fmt"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// records are the values of one kind that users have by name.
type records[T any] struct {
	kind   store.ItemKind
	thing  string // what one of them is, for errors
	encode func(dst []byte, value *T) []byte
	decode func(user, name string, data []byte) (*T, error)
	found  func(*T) store.Found // nil: by its name alone
}

var queues = records[posthaste.Queue]{
	kind:   store.ItemQueue,
	thing:  "queue",
	encode: record.AppendQueue,
	decode: func(_, name string, data []byte) (*posthaste.Queue, error) { return record.DecodeQueue(name, data) },
}

var flowKeys = records[posthaste.FlowKey]{
	kind:   store.ItemFlowKey,
	thing:  "flow-control key",
	encode: record.AppendFlowKey,
	decode: func(_, name string, data []byte) (*posthaste.FlowKey, error) { return record.DecodeFlowKey(name, data) },
}

var urlGroups = records[posthaste.URLGroup]{
	kind:   store.ItemURLGroup,
	thing:  "URL group",
	encode: record.AppendURLGroup,
	decode: func(_, name string, data []byte) (*posthaste.URLGroup, error) {
		return record.DecodeURLGroup(name, data)
	},
}

// Schedules are due at their next tick.
var schedules = records[posthaste.Schedule]{
	kind:   store.ItemSchedule,
	thing:  "schedule",
	encode: record.AppendSchedule,
	decode: record.DecodeSchedule,
	found:  index.Schedule,
}

// Unfinished actions are always due, the others since they completed.
var actions = records[posthaste.BulkAction]{
	kind:   store.ItemAction,
	thing:  "bulk action",
	encode: record.AppendAction,
	decode: record.DecodeAction,
	found:  index.Action,
}

func (r records[T]) key(name string) store.RecordKey {
	return store.RecordKey{Kind: r.kind, Key: []byte(name)}
}

// read decodes a value. An error names it.
func (r records[T]) read(user, name string, data []byte) (*T, error) {
	value, err := r.decode(user, name, data)
	if err != nil {
		return nil, fmt.Errorf("%s %q of user %q: %w", r.thing, name, user, err)
	}
	return value, nil
}

// get returns a value, or store.ErrNotFound.
func (r records[T]) get(from store.Reader, user, name string) (*T, error) {
	data, err := from.Get(r.kind, []byte(name))
	if err != nil {
		return nil, err
	}
	return r.read(user, name, data)
}

// load returns a value, nil if there is none.
func (r records[T]) load(tx *tx, name string) (*T, error) {
	value, err := r.get(tx, tx.user, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

// save writes a value. before is the stored one, nil if there is none.
func (r records[T]) save(tx *tx, name string, before, after *T) {
	tx.Put(r.kind, []byte(name), r.encode(nil, after), r.foundBy(before), r.foundBy(after))
}

// remove deletes a stored value.
func (r records[T]) remove(tx *tx, name string, before *T) {
	tx.Delete(r.kind, []byte(name), r.foundBy(before))
}

// update changes a value, or fresh if there is none, and writes it.
func (r records[T]) update(tx *tx, name string, fresh T, change func(*T) error) error {
	before, err := r.load(tx, name)
	if err != nil {
		return err
	}
	after := fresh
	if before != nil {
		after = *before
	}
	if err := change(&after); err != nil {
		return err
	}
	r.save(tx, name, before, &after)
	return nil
}

func (r records[T]) foundBy(value *T) store.Found {
	if value == nil || r.found == nil {
		return store.Found{}
	}
	return r.found(value)
}
