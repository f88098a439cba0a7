package lsm

import (
	"context"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Import implements store.Backend.
func (s *Store) Import(ctx context.Context, items []store.Item) error {
	return s.writer.do(ctx, func(c *commit) error {
		for _, item := range items {
			if err := s.importItem(c, item); err != nil {
				return fmt.Errorf("%s of %q, key %x: %w", item.Kind, item.User, item.Key, err)
			}
		}
		return nil
	})
}

// importItem writes an item as a transaction of its own.
func (s *Store) importItem(c *commit, item store.Item) (err error) {
	if len(item.User) > maxUserLen {
		return fmt.Errorf("a user id of %d bytes: at most %d fit", len(item.User), maxUserLen)
	}
	tx := &c.tx
	tx.begin(s, c, time.Time{}, item.User)
	defer tx.end()
	switch item.Kind {
	case store.ItemMessage:
		err = tx.importMessage(item)
	case store.ItemEvent:
		err = tx.importEvent(item)
	default:
		err = tx.importRecord(item)
	}
	if err == nil {
		tx.write()
	}
	return err
}

func (tx *transaction) importMessage(item store.Item) error {
	m, _, place, err := record.DecodeMessageItem(item.User, item.Key, item.Value)
	if err != nil {
		return err
	}
	tx.addPlace(placed{id: m.ID, message: m, lane: laneOf(m), now: statusOf(m, &place), accepted: true})
	return nil
}

// statusOf is the inverse of placeOf.
func statusOf(m *posthaste.Message, p *record.Place) status {
	st := status{state: p.State, Waiting: newWaiting(m)}
	st.Retried, st.ReadyMS = p.Retried, 0
	if p.Order != 0 {
		st.order = p.Order
		st.ReadyMS = p.DueAt.UnixMilli()
		st.Callbacks = p.Callbacks
		st.CancelRequested = p.CancelRequested
		st.Ended = p.State.Terminal()
	}
	return st
}

func (tx *transaction) importEvent(item store.Item) error {
	at, err := parsePosition(item.Key)
	if err != nil {
		return err
	}
	event, err := record.DecodeEventItem(at, item.Value)
	if err != nil {
		return err
	}
	m, err := tx.Message(event.MessageID)
	if err != nil {
		return err
	}
	tx.raise(at)
	tx.events = append(tx.events, logged{m, event})
	return nil
}

// importRecord writes a record, and how it is found.
func (tx *transaction) importRecord(item store.Item) error {
	filed, err := index.Of(tx, &item)
	if err != nil {
		return err
	}
	tx.raise(filed.At)
	tx.Put(item.Kind, item.Key, item.Value, store.Found{}, filed.Found)
	if ref := filed.Ref; ref != nil { // of those with the same key the last one stays
		tx.Put(ref.Kind, ref.Key, ref.Value, store.Found{}, store.Found{})
	}
	if tableOf(item.Kind).counted != 0 {
		tx.Count(store.RecordKey{Kind: item.Kind, Key: item.Key}, 1, 0)
	}
	return nil
}

// raise ensures that no later event has a position that was given before.
func (tx *transaction) raise(p posthaste.Position) { tx.c.last = max(tx.c.last, p) }
