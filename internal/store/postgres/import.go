package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

// Import implements store.Backend.
func (s *Store) Import(ctx context.Context, items []store.Item) (err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	users := usersOf(items, s.Division())
	if err := s.prepareImport(ctx, items, users); err != nil {
		return err
	}
	return s.change(ctx, time.Time{}, users, prefetch{}, func(own *tx) error {
		return importItems(items, s.Division().Partitions, func(string) *tx { return own })
	})
}

// Import implements store.Backend.
func (d *Databases) Import(ctx context.Context, items []store.Item) error {
	users := usersOf(items, d.Division())
	var branches []*branch
	for _, s := range d.all {
		own := slices.DeleteFunc(slices.Clone(users), func(user string) bool { return !s.placement.has(user) })
		if err := s.prepareImport(ctx, items, own); err != nil {
			return err
		}
		branches = append(branches, &branch{store: s, users: own})
	}
	return d.across(ctx, time.Time{}, branches, branches[0], func(txOf func(string) *tx) error { return importItems(items, d.partitions, txOf) })
}

// usersOf returns all partitions of the users of items: what finds one may be in another.
func usersOf(items []store.Item, d store.Division) (users []string) {
	for _, item := range items {
		if item.User != "" {
			users = append(users, d.All(store.UserOf(item.User))...)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// prepareImport does what comes before the transaction.
func (s *Store) prepareImport(ctx context.Context, items []store.Item, users []string) error {
	if err := s.requireAlone(ctx); err != nil {
		return err
	}
	for _, item := range items {
		if item.Kind == store.ItemEvent && len(item.Key) == 8 {
			if err := s.days.ensure(ctx, s.pool, positionAt(item.Key).Time()); err != nil {
				return err
			}
		}
	}
	return s.indexLogs(ctx, users)
}

// importItems writes items in the transactions of their partitions.
func importItems(items []store.Item, partitions store.Partitions, txOf func(user string) *tx) error {
	about := map[*tx][]messageOf{} // of events
	for _, item := range items {
		tx := txOf(item.User)
		tx.log.direct = true
		if item.Kind != store.ItemEvent {
			continue
		}
		if id, err := record.EventItemMessage(item.Value); err == nil {
			about[tx] = append(about[tx], messageOf{item.User, id})
		}
	}
	for tx, of := range about {
		if err := tx.readMessages(tx.ctx, tx, of); err != nil {
			return err
		}
	}
	i := &importer{txOf: txOf, partitions: partitions, ends: map[string]posthaste.Position{}}
	for _, item := range items {
		i.tx = txOf(item.User)
		if err := i.add(item); err != nil {
			return fmt.Errorf("%s of %q, key %x: %w", item.Kind, item.User, item.Key, err)
		}
	}
	i.raisePositions()
	return nil
}

// importer writes items within a change.
type importer struct {
	*tx        // of the item
	txOf       func(user string) *tx
	partitions store.Partitions
	ends       map[string]posthaste.Position // the highest ones that were imported, by user
}

// raise notes an imported position.
func (i *importer) raise(user string, p posthaste.Position) { i.ends[user] = max(i.ends[user], p) }

// raisePositions ensures that no new event gets an imported position.
func (i *importer) raisePositions() {
	for user, end := range i.ends {
		tx := i.txOf(user)
		tx.exec(setIndexed, []string{user}, []int64{int64(end)})
		tx.exec(`UPDATE posthaste.users SET position = greatest(position, $2) WHERE user_id = $1`, user, int64(end))
	}
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
	reader := wholeReader{i.scoped(item.User), item.User, i.partitions, func(user string) *reader { return &i.txOf(user).scoped(user).reader }}
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
	scoped, of := i.txOf(item.User).scoped(item.User), recordOf{item.User, item.Kind, string(item.Key)}
	scoped.putRecord(of, item.Value, milli(found.DueAt))
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
