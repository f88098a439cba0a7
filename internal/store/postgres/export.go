package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// errNotAlone says that other nodes use the database.
var errNotAlone = errors.New("other nodes use the database, or did until a moment ago: stop them, and wait 10 seconds if one was killed")

// Empty implements store.Copier. It is asked before anything is written, so it returns
// errNotAlone too.
func (s *Store) Empty(ctx context.Context) (empty bool, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer done(&err)
	if err := s.alone(ctx); err != nil {
		return false, err
	}
	return row(ctx, s.pool, pgx.RowTo[bool], `
		SELECT NOT EXISTS (SELECT FROM posthaste.messages) AND NOT EXISTS (SELECT FROM posthaste.documents)
			AND NOT EXISTS (SELECT FROM posthaste.runs)`)
}

// alone returns errNotAlone if other nodes live, and gives back what the dead had
// claimed.
func (s *Store) alone(ctx context.Context) error {
	others, err := row(ctx, s.pool, pgx.RowTo[int], `
		SELECT count(*)::integer FROM posthaste.nodes WHERE expires_at > clock_timestamp() AND node <> $1`, s.node.number())
	if err == nil && others > 0 {
		return errNotAlone
	}
	if err != nil {
		return err
	}
	return s.reapDeadNodes(ctx, time.Time{})
}

// Export implements store.Copier.
func (s *Store) Export(ctx context.Context, now time.Time, yield func(store.Item) error) (err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	if err := s.alone(ctx); err != nil {
		return err
	}
	for _, e := range exports {
		export := s.export
		if e.kind == store.ItemEvent {
			export = s.exportEvents
		}
		if err := export(ctx, e, now, yield); err != nil {
			return err
		}
	}
	return s.alone(ctx)
}

// export is how the items of a kind are read, one or several of a row: user, what their
// keys are made of, and what their values are.
type export struct {
	kind  store.ItemKind
	query string
	items func(r pgx.CollectableRow) ([]store.Item, error)
}

// one reads one item of each row.
func one(item func(r pgx.CollectableRow) (store.Item, error)) func(r pgx.CollectableRow) ([]store.Item, error) {
	return func(r pgx.CollectableRow) ([]store.Item, error) {
		i, err := item(r)
		return []store.Item{i}, err
	}
}

// exports are in the order of the kinds.
var exports = []export{
	{store.ItemSecret, `SELECT '', key, value FROM posthaste.secrets ORDER BY key`, one(plainItem)},
	exportDocuments(store.ItemQueue, queues.kind),
	exportDocuments(store.ItemURLGroup, urlGroups.kind),
	exportDocuments(store.ItemFlowKey, flowKeys.kind),
	exportDocuments(store.ItemSchedule, schedules.kind),
	exportDocuments(store.ItemAction, actions.kind),
	{store.ItemRun, `SELECT user_id, position, record, progress FROM posthaste.runs ORDER BY user_id, position`, one(runItem)},
	{store.ItemRunEntry, `SELECT user_id, run, entry, record FROM posthaste.run_entries ORDER BY user_id, run, entry`, one(runEntryItem)},
	{store.ItemIdempotencyRecord, `SELECT user_id, run, key, message_id FROM posthaste.run_memory ORDER BY user_id, run, key`, one(runMemoryItem)},
	{store.ItemRunEvent, `SELECT user_id, run, position, event_id, body FROM posthaste.run_events ORDER BY user_id, run, position`, one(runEventItem)},
	{store.ItemWaiter, `SELECT user_id, run, position, record FROM posthaste.waiters ORDER BY user_id, run, position`, one(waiterItem)},
	{store.ItemMessage, `
		SELECT user_id, id, record, coalesce(l.state, e.state), coalesce(l.retried, e.retried),
			l.place, l.due, coalesce(l.callbacks, 0), coalesce(l.cancel_requested, false)
		FROM posthaste.messages LEFT JOIN posthaste.live l USING (user_id, id) LEFT JOIN posthaste.ended e USING (user_id, id)
		ORDER BY user_id, id`, one(messageItem)},
	{store.ItemEvent, `
		SELECT user_id, first, block,
			ARRAY(SELECT r.first FROM posthaste.responses r WHERE r.user_id = e.user_id AND r.first >= e.first AND r.first < e.next ORDER BY r.first),
			ARRAY(SELECT r.record FROM posthaste.responses r WHERE r.user_id = e.user_id AND r.first >= e.first AND r.first < e.next ORDER BY r.first)
		FROM (
			SELECT user_id, first, block, lead(first, 1, 9223372036854775807) OVER (PARTITION BY user_id ORDER BY first) AS next
			FROM posthaste.events) AS e
		ORDER BY user_id, first`, eventItems},
	{store.ItemDeadLetter, `SELECT user_id, id, record FROM posthaste.dead_letters ORDER BY user_id, id`, one(deadLetterItem)},
	{store.ItemRunDeadLetter, `SELECT user_id, id, run, record FROM posthaste.run_dead_letters ORDER BY user_id, id`, one(runDeadLetterItem)},
	{store.ItemSubmission, `SELECT user_id, key, at, ids FROM posthaste.submissions ORDER BY user_id, key`, one(submissionItem)},
	{store.ItemResponse, `SELECT user_id, key, at, answer FROM posthaste.answers ORDER BY user_id, key`, one(answerItem)},
}

func exportDocuments(kind store.ItemKind, stored int16) export {
	return export{kind, `
		SELECT user_id, name, record FROM posthaste.documents WHERE kind = ` + string('0'+rune(stored)) + `
		ORDER BY user_id, name`, one(plainItem)}
}

// export yields the items of a kind while they are read.
func (s *Store) export(ctx context.Context, e export, now time.Time, yield func(store.Item) error) error {
	found, err := s.pool.Query(ctx, e.query)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		items, err := e.items(found)
		if err != nil {
			return err
		}
		for _, item := range items {
			if item.Kind = e.kind; item.Expired(now) {
				continue
			}
			if err := yield(item); err != nil {
				return err
			}
		}
	}
	return found.Err()
}

// eventsAtOnce bounds the events whose messages are looked for together.
const eventsAtOnce = 1000

// exportEvents leaves out the events whose message retention has removed, as it does
// before it comes to all of them.
func (s *Store) exportEvents(ctx context.Context, e export, now time.Time, yield func(store.Item) error) error {
	var events []store.Item
	flush := func() error {
		there, err := s.haveMessages(ctx, events)
		for i := 0; i < len(there) && err == nil; i++ {
			if there[i] {
				err = yield(events[i])
			}
		}
		events = events[:0]
		return err
	}
	err := s.export(ctx, e, now, func(event store.Item) error {
		if events = append(events, event); len(events) < eventsAtOnce {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// haveMessages reports of each of some events whether there is its message. The pool may
// have no other connection than the one that the events are read from.
func (s *Store) haveMessages(ctx context.Context, events []store.Item) ([]bool, error) {
	users, ids := make([]string, len(events)), make([][16]byte, len(events))
	for i, event := range events {
		parts, err := record.Parts(event.Value, 3)
		if err != nil {
			return nil, err
		}
		users[i], ids[i] = event.User, [16]byte(parts[0])
	}
	return rows(ctx, s.control, pgx.RowTo[bool], `
		SELECT EXISTS (SELECT FROM posthaste.messages m WHERE m.user_id = w.user_id AND m.id = w.id)
		FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS w (user_id, id, n) ORDER BY n`, users, ids)
}

// numbersKey is a key of numbers.
func numbersKey(numbers ...int64) (key []byte) {
	for _, n := range numbers {
		key = binary.BigEndian.AppendUint64(key, uint64(n))
	}
	return key
}

func plainItem(r pgx.CollectableRow) (i store.Item, err error) {
	err = r.Scan(&i.User, &i.Key, &i.Value)
	return i, err
}

func runItem(r pgx.CollectableRow) (i store.Item, err error) {
	var at int64
	var envelope, progress []byte
	err = r.Scan(&i.User, &at, &envelope, &progress)
	i.Key, i.Value = numbersKey(at), record.AppendParts(nil, envelope, progress)
	return i, err
}

func runEntryItem(r pgx.CollectableRow) (i store.Item, err error) {
	var run int64
	var entry int32
	err = r.Scan(&i.User, &run, &entry, &i.Value)
	i.Key = binary.BigEndian.AppendUint32(numbersKey(run), uint32(entry))
	return i, err
}

func runMemoryItem(r pgx.CollectableRow) (i store.Item, err error) {
	var run int64
	var key []byte
	var id [16]byte
	err = r.Scan(&i.User, &run, &key, &id)
	i.Key, i.Value = append(numbersKey(run), key...), id[:]
	return i, err
}

func runEventItem(r pgx.CollectableRow) (i store.Item, err error) {
	var run, at int64
	var id, body []byte
	err = r.Scan(&i.User, &run, &at, &id, &body)
	i.Key, i.Value = numbersKey(run, at), record.AppendParts(nil, id, body)
	return i, err
}

func waiterItem(r pgx.CollectableRow) (i store.Item, err error) {
	var run, at int64
	err = r.Scan(&i.User, &run, &at, &i.Value)
	i.Key = numbersKey(run, at)
	return i, err
}

func messageItem(r pgx.CollectableRow) (i store.Item, err error) {
	var id [16]byte
	var envelope []byte
	var state int16
	var order, due *int64
	var p record.Place
	if err := r.Scan(&i.User, &id, &envelope, &state, &p.Retried, &order, &due, &p.Callbacks, &p.CancelRequested); err != nil {
		return i, err
	}
	if p.State, err = record.StateOf(uint8(state)); err != nil {
		return i, err
	}
	if order != nil {
		p.Order, p.DueAt = posthaste.Position(*order), time.UnixMilli(*due)
	}
	m, err := record.DecodeMessage(id, i.User, envelope)
	if err != nil {
		return i, err
	}
	i.Key = id[:]
	i.Value = record.AppendParts(nil, record.AppendMessage(nil, m), record.AppendPlace(nil, &p))
	return i, nil
}

// eventItems reads the events of a block, and the responses that belong to them.
func eventItems(r pgx.CollectableRow) (items []store.Item, err error) {
	var user string
	var first int64
	var block []byte
	var answered []int64
	var responses [][]byte
	if err := r.Scan(&user, &first, &block, &answered, &responses); err != nil {
		return nil, err
	}
	events, err := decodeEvents(first, block, everyPosition)
	for _, e := range events {
		var response []byte
		if n, has := slices.BinarySearch(answered, int64(e.Position)); has {
			response = responses[n]
		}
		items = append(items, store.Item{
			User: user, Key: numbersKey(int64(e.Position)),
			Value: record.AppendParts(nil, e.MessageID[:], record.AppendEvent(nil, &e), response),
		})
	}
	return items, err
}

func deadLetterItem(r pgx.CollectableRow) (i store.Item, err error) {
	var id int64
	err = r.Scan(&i.User, &id, &i.Value)
	i.Key = numbersKey(id)
	return i, err
}

func runDeadLetterItem(r pgx.CollectableRow) (i store.Item, err error) {
	var id, run int64
	var letter []byte
	err = r.Scan(&i.User, &id, &run, &letter)
	i.Key, i.Value = numbersKey(id), record.AppendParts(nil, numbersKey(run), letter)
	return i, err
}

func submissionItem(r pgx.CollectableRow) (i store.Item, err error) {
	var at int64
	var ids [][16]byte
	err = r.Scan(&i.User, &i.Key, &at, &ids)
	i.Value = numbersKey(at)
	for _, id := range ids {
		i.Value = append(i.Value, id[:]...)
	}
	return i, err
}

func answerItem(r pgx.CollectableRow) (i store.Item, err error) {
	var at int64
	var answer []byte
	err = r.Scan(&i.User, &i.Key, &at, &answer)
	i.Value = append(numbersKey(at), answer...)
	return i, err
}
