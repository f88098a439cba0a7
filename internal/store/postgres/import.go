package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

func (s *Store) Import(ctx context.Context, items []store.Item) (err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	if err := s.requireAlone(ctx); err != nil {
		return err
	}
	var users []string
	var about []messageOf // what events are about
	for _, item := range items {
		if item.User != "" {
			users = append(users, s.Division().All(store.UserOf(item.User))...) // what finds it may be elsewhere
		}
		if item.Kind == store.ItemEvent && len(item.Key) == 8 {
			if err := s.days.ensure(ctx, s.pool, positionAt(item.Key).Time()); err != nil {
				return err
			}
			if id, err := record.EventItemMessage(item.Value); err == nil {
				about = append(about, messageOf{item.User, id})
			}
		}
	}
	if err := s.indexLogs(ctx, users); err != nil {
		return err
	}
	return s.change(ctx, time.Time{}, users, prefetch{}, func(tx *tx) error {
		if err := tx.readMessages(tx.ctx, tx, about); err != nil {
			return err
		}
		i := &importer{tx, map[string]posthaste.Position{}}
		i.log.direct = true
		for _, item := range items {
			if err := i.add(item); err != nil {
				return fmt.Errorf("%s of %q, key %x: %w", item.Kind, item.User, item.Key, err)
			}
		}
		return i.raisePositions()
	})
}

// importer writes items within a change.
type importer struct {
	*tx
	ends map[string]posthaste.Position // the highest ones that were imported, by user
}

// raise notes an imported position.
func (i *importer) raise(user string, p posthaste.Position) { i.ends[user] = max(i.ends[user], p) }

// raisePositions ensures that no new event gets an imported position.
func (i *importer) raisePositions() error {
	for user, end := range i.ends {
		i.exec(setIndexed, []string{user}, []int64{int64(end)})
		i.exec(`UPDATE posthaste.users SET position = greatest(position, $2) WHERE user_id = $1`, user, int64(end))
	}
	return nil
}

func positionAt(key []byte) posthaste.Position {
	return posthaste.Position(binary.BigEndian.Uint64(key))
}

func (i *importer) add(item store.Item) error {
	switch item.Kind {
	case store.ItemMessage:
		return i.message(item)
	case store.ItemEvent:
		return i.event(item)
	default:
		return i.restore(&item)
	}
}

// restore writes a record, and how it is found.
func (i *importer) restore(item *store.Item) error {
	reader := wholeReader{&i.store.scoped(i.tx, item.User).reader, i.store.Division().Partitions}
	filed, err := index.Of(reader, item)
	if err != nil {
		return err
	}
	i.raise(item.User, filed.At)
	i.put(item, filed.Found)
	if ref := filed.Ref; ref != nil { // of those with the same key the last one stays
		i.put(&store.Item{Kind: ref.Kind, User: reader.of(ref.RecordKey).user, Key: ref.Key, Value: ref.Value}, store.Found{})
	}
	return nil
}

// put writes a record and what it is found by.
func (i *importer) put(item *store.Item, found store.Found) {
	scoped, of := i.store.scoped(i.tx, item.User), recordOf{item.User, item.Kind, string(item.Key)}
	i.putRecord(of, item.Value, milli(found.DueAt))
	scoped.putTerms(of, store.Found{}, found)
	switch item.Kind {
	case store.ItemDeadLetter, store.ItemRun, store.ItemRunDeadLetter:
		scoped.Count(store.RecordKey{Kind: item.Kind, Key: item.Key}, 1, len(item.Value))
	case store.ItemRunEntry:
		scoped.Count(store.RecordKey{Kind: store.ItemRun, Key: item.Key[:8]}, 0, len(item.Value))
	}
}

func (i *importer) message(item store.Item) error {
	m, data, place, err := record.DecodeMessageItem(item.User, item.Key, item.Value)
	if err != nil {
		return err
	}
	i.accepted = append(i.accepted, newMessageRow(m, data))
	i.messages[messageOf{m.User, m.ID}] = m
	if place.State.Terminal() {
		i.finished = append(i.finished, &ending{messageOf{m.User, m.ID}, place.State, place.Retried})
	}
	day := m.ID.CreatedAt().UTC().Truncate(day).UnixMilli()
	i.addUsage(usageKey{m.User, usageLog, day}, 0, len(data))
	if place.Order != 0 {
		i.addToLane(m, &place)
	}
	return nil
}

// addToLane writes where a message waits.
func (i *importer) addToLane(m *posthaste.Message, p *record.Place) {
	l := &liveMessage{
		user: m.User, id: m.ID, lane: laneOf(m), place: p.Order, dueMS: p.DueAt.UnixMilli(),
		state: p.State, retried: p.Retried, ended: p.State.Terminal(), callbacks: p.Callbacks, cancelRequested: p.CancelRequested,
	}
	if m.FlowControl.Key != "" {
		l.flowKey = []byte(m.FlowControl.Key)
	}
	i.save(l)
	var counted int32 = 1
	if l.ended {
		counted = 0
	}
	i.touch(l.lane, counted)
}

func (i *importer) event(item store.Item) error {
	if len(item.Key) != 8 {
		return errNoPosition
	}
	event, err := record.DecodeEventItem(positionAt(item.Key), item.Value)
	if err != nil {
		return err
	}
	m := i.messages[messageOf{item.User, event.MessageID}]
	if m == nil { // it was removed, and nobody finds the event
		m = &posthaste.Message{ID: event.MessageID, User: item.User}
	}
	i.raise(item.User, event.Position)
	size := i.log.add(m, &event)
	i.addUsage(usageKey{item.User, usageLog, dayOf(event.Position)}, 1, size)
	return nil
}
