package lsm

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

// Import implements store.Copier. What waits is found by its lanes when the store is
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
	case store.ItemSecret, store.ItemQueue, store.ItemURLGroup, store.ItemFlowKey, store.ItemAction, store.ItemSchedule:
		return i.record(item)
	case store.ItemMessage:
		return i.message(item)
	case store.ItemEvent:
		return i.event(item)
	case store.ItemDeadLetter:
		return i.deadLetter(item)
	case store.ItemSubmission, store.ItemResponse:
		return i.remembered(item)
	default:
		return i.ofRun(item)
	}
}

// raise sees to it that no event to come has a position that was given before.
func (i *importer) raise(p posthaste.Position) { i.c.last = max(i.c.last, p) }

// record writes a record and when it is due.
func (i *importer) record(item store.Item) error {
	found, err := index.Of(nil, &item)
	if err != nil {
		return err
	}
	t := tableOf(item.Kind)
	i.c.setRecord(t.appendRecord(nil, item.User, item.Key), item.Value)
	moveDue(i.c, item.Kind, item.User, string(item.Key), time.Time{}, found.DueAt)
	return nil
}

func (i *importer) message(item store.Item) error {
	m, _, place, err := record.DecodeMessageItem(item.User, item.Key, item.Value)
	if err != nil {
		return err
	}
	i.messages[messageID{m.User, m.ID}] = m
	i.c.set(appendMessageKey(i.c.key(), segmentEnvelope, m.User, m.ID), encodeEnvelope(m))
	if len(m.Body) >= largeBody && !isEntry(m) {
		i.c.set(appendMessageKey(i.c.key(), segmentBody, m.User, m.ID), m.Body)
	}
	st := statusOf(m, &place)
	i.c.setStatus(m, st)
	if place.Order != 0 {
		i.c.set(appendWaitingKey(i.c.key(), laneOf(m), ticket{st.order, m.ID}), st.waiting.append(nil))
	}
	return nil
}

// statusOf is the inverse of placeOf.
func statusOf(m *posthaste.Message, p *record.Place) status {
	st := status{state: p.State, waiting: newWaiting(m)}
	st.retried, st.readyMS = p.Retried, 0
	if p.Order != 0 {
		st.order = p.Order
		st.readyMS = p.DueAt.UnixMilli()
		st.callbacks = p.Callbacks
		st.cancelRequested = p.CancelRequested
		st.ended = p.State.Terminal()
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

func (i *importer) deadLetter(item store.Item) error {
	at, err := parsePosition(item.Key)
	if err != nil {
		return err
	}
	d, err := record.DecodeDeadLetter(posthaste.DeadLetterID(at), item.User, item.Value)
	if err != nil {
		return err
	}
	i.raise(at)
	i.store.addToDLQ(i.c, d)
	return nil
}

// remembered writes a submission or an answer, which lie in their day.
func (i *importer) remembered(item store.Item) error {
	if len(item.Value) < 8 {
		return errCorrupt
	}
	part := byte(segmentDedup)
	if item.Kind == store.ItemResponse {
		part = segmentAnswer
	}
	at := milliTime(int64(binary.BigEndian.Uint64(item.Value)))
	i.c.set(append(appendSegment(i.c.key(), dayOf(at), part, item.User), item.Key...), item.Value)
	return nil
}

// ofRun writes what belongs to a run. Its key begins with a position.
func (i *importer) ofRun(item store.Item) error {
	if len(item.Key) < 8 {
		return errCorrupt
	}
	run, _ := parsePosition(item.Key[:8])
	switch item.Kind {
	case store.ItemRun:
		return i.run(item, run)
	case store.ItemRunEntry:
		i.c.setRecord(append(appendRunPart(nil, runEntry, item.User), item.Key...), item.Value)
	case store.ItemIdempotencyRecord:
		i.c.setRecord(append(appendRunPart(nil, runMemory, item.User), item.Key...), item.Value)
	case store.ItemRunEvent:
		return i.runEvent(item, run)
	case store.ItemWaiter:
		return i.waiter(item)
	case store.ItemRunDeadLetter:
		return i.runDeadLetter(item, run)
	default:
		return fmt.Errorf("an item of kind %d is not known", item.Kind)
	}
	return nil
}

func (i *importer) run(item store.Item, at posthaste.Position) error {
	parts, err := record.Parts(item.Value, 2)
	if err != nil {
		return err
	}
	i.raise(at)
	i.c.setRecord(appendRunKey(nil, runEnvelope, item.User, at), parts[0])
	i.c.setRecord(appendRunKey(nil, runProgress, item.User, at), parts[1])
	run, err := readRun(i.c.records(), item.User, at)
	if err != nil {
		return err
	}
	i.c.setRecord(append(appendRunPart(nil, runLatest, item.User), run.ID...), item.Key) // the last one stays
	i.c.replacePostings(runPosting, item.User, at, nil, index.Run(run))
	i.c.count(appendCountKey(nil, countedRuns, item.User), 1)
	return nil
}

func (i *importer) runEvent(item store.Item, run posthaste.Position) error {
	parts, err := record.Parts(item.Value, 2)
	if err != nil {
		return err
	}
	at, err := parsePosition(item.Key[8:])
	if err != nil {
		return err
	}
	i.raise(at)
	key := appendText(appendRunKey(nil, runEvent, item.User, run), string(parts[0]))
	i.c.setRecord(binary.BigEndian.AppendUint64(key, uint64(at)), parts[1])
	return nil
}

func (i *importer) waiter(item store.Item) error {
	at, err := parsePosition(item.Key[8:])
	if err != nil {
		return err
	}
	w, err := record.DecodeWaiter(at, item.Value)
	if err != nil {
		return err
	}
	i.raise(at)
	i.c.setWaiter(item.User, w)
	return nil
}

func (i *importer) runDeadLetter(item store.Item, id posthaste.Position) error {
	parts, err := record.Parts(item.Value, 2)
	if err != nil {
		return err
	}
	at, err := parsePosition(parts[0])
	if err != nil {
		return err
	}
	run, err := readRun(i.c.records(), item.User, at)
	if err != nil {
		return err
	}
	d, err := record.DecodeDeadLetter(posthaste.DeadLetterID(id), item.User, parts[1])
	if err != nil {
		return err
	}
	i.raise(id)
	i.c.addRunToDLQ(item.User, run, d)
	return nil
}
