package lsm

import (
	"context"
	"fmt"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/lsm/lanes"
	"posthaste/internal/store/record"
)

// Import implements store.Backend. What waits is found by its lanes when the store is
// opened again.
func (s *Store) Import(ctx context.Context, items []store.Item) error {
	return s.writer.do(ctx, func(c *commit) error {
		i := &importer{store: s, c: c, messages: map[messageID]*posthaste.Message{}}
		for _, item := range items {
			if err := i.add(item); err != nil {
				return fmt.Errorf("%s of %q, key %x: %w", item.Kind, item.User, item.Key, err)
			}
		}
		return nil
	})
}

// importer writes items into a commit.
type importer struct {
	store    *Store
	c        *commit
	messages map[messageID]*posthaste.Message // that this commit has imported or read
}

func (i *importer) add(item store.Item) error {
	if len(item.User) > maxUserLen {
		return fmt.Errorf("a user id of %d bytes: at most %d fit", len(item.User), maxUserLen)
	}
	switch item.Kind {
	case store.ItemMessage:
		return i.message(item)
	case store.ItemEvent:
		return i.event(item)
	default:
		return i.record(item)
	}
}

// raise sees to it that no event to come has a position that was given before.
func (i *importer) raise(p posthaste.Position) { i.c.last = max(i.c.last, p) }

func (i *importer) message(item store.Item) error {
	m, _, place, err := record.DecodeMessageItem(item.User, item.Key, item.Value)
	if err != nil {
		return err
	}
	i.messages[messageID{m.User, m.ID}] = m
	i.c.set(appendMessageKey(i.c.key(), segmentEnvelope, m.User, m.ID), appendEnvelope(nil, m))
	if len(m.Body) >= largeBody && !isEntry(m) {
		i.c.set(appendMessageKey(i.c.key(), segmentBody, m.User, m.ID), m.Body)
	}
	st := statusOf(m, &place)
	i.c.setStatus(m, st)
	if place.Order != 0 {
		i.c.set(appendWaitingKey(i.c.key(), laneOf(m), lanes.Spot{Order: st.order, ID: m.ID}), appendWaiting(nil, &st.Waiting))
	}
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

func (i *importer) event(item store.Item) error {
	at, err := parsePosition(item.Key)
	if err != nil {
		return err
	}
	event, err := record.DecodeEventItem(at, item.Value)
	if err != nil {
		return err
	}
	m, err := i.messageOf(messageID{item.User, event.MessageID})
	if err != nil {
		return err
	}
	i.raise(event.Position)
	i.c.addEvent(m, event)
	return nil
}

// messageOf returns the message of an event, which was imported before.
func (i *importer) messageOf(id messageID) (m *posthaste.Message, err error) {
	if m = i.messages[id]; m == nil {
		m, err = readMessage(i.c.db, id.user, id.id)
		i.messages[id] = m
	}
	return m, err
}

// record writes a record, and how it is found.
func (i *importer) record(item store.Item) error {
	filed, err := index.Of(imported{c: i.c, user: item.User}, &item)
	if err != nil {
		return err
	}
	i.raise(filed.At)
	i.put(&item, filed.Found)
	if ref := filed.Ref; ref != nil { // of those with the same key the last one stays
		i.put(&store.Item{Kind: ref.Kind, User: item.User, Key: ref.Key, Value: ref.Value}, store.Found{})
	}
	return nil
}

// imported reads records as of a commit.
type imported struct {
	store.Reader
	c    *commit
	user string
}

func (i imported) Get(kind store.ItemKind, key []byte) ([]byte, error) {
	return getRecord(i.c.records(), kind, i.user, key)
}

// put writes a record and what it is found by.
func (i *importer) put(item *store.Item, found store.Found) {
	t := tableOf(item.Kind)
	i.c.setRecord(t.appendRecord(nil, item.User, item.Key), item.Value)
	if !found.DueAt.IsZero() {
		i.c.setRecord(t.appendDue(nil, found.DueAt, item.User, item.Key), nil)
	}
	for _, term := range found.Terms {
		i.c.setRecord(t.appendPosting(nil, item.User, term, item.Key), nil)
	}
	if t.counted != 0 {
		i.c.count(appendCountKey(nil, t.counted, item.User), 1)
	}
}
