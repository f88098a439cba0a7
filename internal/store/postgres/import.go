package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

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
			users = append(users, item.User)
		}
		if item.Kind == store.ItemEvent && len(item.Key) == 8 {
			if err := s.partitions.ensure(ctx, s.pool, positionAt(item.Key).Time()); err != nil {
				return err
			}
			if id, err := record.EventItemMessage(item.Value); err == nil {
				about = append(about, messageOf{item.User, id})
			}
		}
	}
	return s.change(ctx, time.Time{}, users, prefetch{}, func(tx *tx) error {
		if err := tx.readMessages(tx.ctx, tx, about); err != nil {
			return err
		}
		i := &importer{tx, map[string]posthaste.Position{}}
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
		i.exec(`UPDATE posthaste.users SET position = greatest(position, $2) WHERE user_id = $1`, user, int64(end))
		if _, err := row(i.ctx, i, pgx.RowTo[int64], `SELECT posthaste.take_positions(1, $1)`, int64(end)); err != nil {
			return err
		}
	}
	return nil
}

func positionAt(key []byte) posthaste.Position {
	return posthaste.Position(binary.BigEndian.Uint64(key))
}

// keyLengths are the lengths of keys made of numbers and hashes.
var keyLengths = map[store.ItemKind]int{
	store.ItemRun: 8, store.ItemRunEntry: 12, store.ItemIdempotencyRecord: 24, store.ItemRunEvent: 16, store.ItemWaiter: 16,
	store.ItemMessage: 16, store.ItemEvent: 8, store.ItemDeadLetter: 8, store.ItemRunDeadLetter: 8,
}

func (i *importer) add(item store.Item) error {
	if want, fixed := keyLengths[item.Kind]; fixed && len(item.Key) != want {
		return fmt.Errorf("its key has %d bytes, not %d", len(item.Key), want)
	}
	switch item.Kind {
	case store.ItemSecret, store.ItemQueue, store.ItemURLGroup, store.ItemFlowKey, store.ItemSchedule, store.ItemAction:
		return i.record(item)
	case store.ItemMessage:
		return i.message(item)
	case store.ItemEvent:
		return i.event(item)
	case store.ItemDeadLetter:
		return i.deadLetter(item)
	case store.ItemSubmission, store.ItemResponse:
		return i.submission(item)
	case store.ItemRun:
		return i.run(item)
	case store.ItemRunEntry:
		i.exec(`INSERT INTO posthaste.run_entries (user_id, run, entry, record) VALUES ($1, $2, $3, $4)`,
			item.User, int64(positionAt(item.Key)), int32(binary.BigEndian.Uint32(item.Key[8:])), item.Value)
		i.addUsage(usageKey{user: item.User, kind: usageRuns}, 0, len(item.Value))
		return nil
	case store.ItemIdempotencyRecord:
		i.exec(`INSERT INTO posthaste.run_memory (user_id, run, key, message_id) VALUES ($1, $2, $3, $4)`,
			item.User, int64(positionAt(item.Key)), item.Key[8:], [16]byte(item.Value))
		return nil
	case store.ItemRunEvent:
		return i.runEvent(item)
	case store.ItemWaiter:
		return i.waiter(item)
	case store.ItemRunDeadLetter:
		return i.runDeadLetter(item)
	default:
		return fmt.Errorf("items of kind %d are unknown", item.Kind)
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

func (i *importer) deadLetter(item store.Item) error {
	at := positionAt(item.Key)
	d, err := record.DecodeDeadLetter(posthaste.DeadLetterID(at), item.User, item.Value)
	if err != nil {
		return err
	}
	i.raise(item.User, at)
	i.exec(`INSERT INTO posthaste.dead_letters (user_id, id, record) VALUES ($1, $2, $3)`, item.User, int64(at), item.Value)
	i.index(item.User, usageDeadLetters, int64(at), index.DeadLetter(d))
	i.addUsage(usageKey{user: item.User, kind: usageDeadLetters}, 1, len(item.Value))
	return nil
}

// submission writes a submission or a cached response.
func (i *importer) submission(item store.Item) error {
	const atLen, idLen = 8, len(posthaste.MessageID{})
	if len(item.Value) < atLen {
		return fmt.Errorf("its value has %d bytes", len(item.Value))
	}
	at, rest := int64(binary.BigEndian.Uint64(item.Value)), item.Value[atLen:]
	if item.Kind == store.ItemResponse {
		i.exec(`INSERT INTO posthaste.answers (user_id, key, at, answer) VALUES ($1, $2, $3, $4)`, item.User, item.Key, at, rest)
		return nil
	}
	ids := [][16]byte{}
	for ; len(rest) >= idLen; rest = rest[idLen:] {
		ids = append(ids, [16]byte(rest[:idLen]))
	}
	i.exec(`INSERT INTO posthaste.submissions (user_id, key, at, ids) VALUES ($1, $2, $3, $4)`, item.User, item.Key, at, ids)
	return nil
}

func (i *importer) run(item store.Item) error {
	parts, err := record.Parts(item.Value, 2)
	if err != nil {
		return err
	}
	run, err := decodeRun(item.User, parts[0], parts[1])
	if err != nil {
		return err
	}
	at := positionAt(item.Key)
	i.raise(item.User, at)
	i.exec(`INSERT INTO posthaste.runs (user_id, position, id, record, progress, completed) VALUES ($1, $2, $3, $4, $5, $6)`,
		item.User, int64(at), shortHash(run.ID), parts[0], parts[1], completedAt(run))
	i.index(item.User, usageRuns, int64(at), index.Run(run))
	i.addUsage(usageKey{user: item.User, kind: usageRuns}, 1, len(parts[0]))
	return nil
}

func (i *importer) runEvent(item store.Item) error {
	parts, err := record.Parts(item.Value, 2)
	if err != nil {
		return err
	}
	at := positionAt(item.Key[8:])
	i.raise(item.User, at)
	i.exec(`INSERT INTO posthaste.run_events (user_id, run, position, event_id, body) VALUES ($1, $2, $3, $4, $5)`,
		item.User, int64(positionAt(item.Key)), int64(at), parts[0], parts[1])
	return nil
}

func (i *importer) waiter(item store.Item) error {
	at := positionAt(item.Key[8:])
	w, err := record.DecodeWaiter(at, item.Value)
	if err != nil {
		return err
	}
	i.raise(item.User, at)
	i.exec(`INSERT INTO posthaste.waiters (user_id, run, position, topic, deadline, record) VALUES ($1, $2, $3, $4, $5, $6)`,
		item.User, int64(positionAt(item.Key)), int64(at), shortHash(string(w.Topic)), milli(w.Deadline), item.Value)
	return nil
}

func (i *importer) runDeadLetter(item store.Item) error {
	parts, err := record.Parts(item.Value, 2)
	if err != nil {
		return err
	}
	if len(parts[0]) != 8 {
		return fmt.Errorf("the position of its run has %d bytes", len(parts[0]))
	}
	run, err := readRun(i.ctx, i, item.User, positionAt(parts[0]))
	if err != nil {
		return fmt.Errorf("its run: %w", err)
	}
	at := positionAt(item.Key)
	i.raise(item.User, at)
	i.exec(`INSERT INTO posthaste.run_dead_letters (user_id, id, run, record) VALUES ($1, $2, $3, $4)`,
		item.User, int64(at), int64(run.Position), parts[1])
	i.index(item.User, usageFailedRuns, int64(at), index.FailedRun(run))
	i.addUsage(usageKey{user: item.User, kind: usageFailedRuns}, 1, len(parts[1]))
	return nil
}

// record writes a record and when it is due.
func (i *importer) record(item store.Item) error {
	found, err := index.Of(nil, &item)
	if err == nil {
		i.putRecord(recordOf{item.User, item.Kind, string(item.Key)}, item.Value, milli(found.DueAt))
	}
	return err
}
