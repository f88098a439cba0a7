package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/record"
)

var errNotAlone = errors.New("other nodes use the database, or did until a moment ago: stop them, and wait 10 seconds if one was killed")

// requireAlone returns errNotAlone if other nodes are alive. It releases the claims of dead nodes.
func (s *Store) requireAlone(ctx context.Context) error {
	others, err := row(ctx, s.pool, pgx.RowTo[bool], `
		SELECT EXISTS (SELECT FROM posthaste.nodes WHERE expires_at > clock_timestamp() AND node <> $1)`, s.node.Number())
	if err != nil {
		return err
	}
	if others {
		return errNotAlone
	}
	return s.reapDeadNodes(ctx, time.Time{})
}

// Export implements store.Backend.
func (s *Store) Export(ctx context.Context, now time.Time, yield func(store.Item) error) error {
	return exportAll(ctx, []*Store{s}, now, yield)
}

// Export implements store.Backend.
func (d *Databases) Export(ctx context.Context, now time.Time, yield func(store.Item) error) error {
	return exportAll(ctx, d.all, now, yield)
}

// exportAll exports what is in some databases.
func exportAll(ctx context.Context, all []*Store, now time.Time, yield func(store.Item) error) (err error) {
	for _, s := range all {
		var done func(*error)
		if ctx, done, err = s.begin(ctx); err != nil {
			return err
		}
		defer func() { done(&err) }()
	}
	if err := requireAllAlone(ctx, all); err != nil {
		return err
	}
	for kind := store.ItemSecret; kind <= store.ItemResponse; kind++ {
		if kind == store.ItemEvent {
			if err := exportEvents(ctx, all, yield); err != nil {
				return err
			}
			continue
		}
		for _, s := range all {
			if err := s.export(ctx, kind, now, yield); err != nil {
				return err
			}
		}
	}
	return requireAllAlone(ctx, all)
}

func requireAllAlone(ctx context.Context, all []*Store) error {
	for _, s := range all {
		if err := s.requireAlone(ctx); err != nil {
			return err
		}
		if !s.placement.several() {
			continue
		}
		left, err := rows(ctx, s.pool, pgx.RowTo[string], allPrepared)
		if err != nil {
			return err
		}
		for _, name := range left { // by nodes that were killed
			if err := s.resolve(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// export reads the items of a kind.
type export struct {
	query string
	items func(pgx.CollectableRow) ([]store.Item, error)
}

// exportOf returns how items of a kind are read.
func exportOf(kind store.ItemKind) export {
	switch kind {
	case store.ItemMessage:
		return export{`
			SELECT user_id, id, record, coalesce(l.state, e.state), coalesce(l.retried, e.retried),
				l.place, l.due, coalesce(l.callbacks, 0), coalesce(l.cancel_requested, false)
			FROM posthaste.messages LEFT JOIN posthaste.live l USING (user_id, id) LEFT JOIN posthaste.ended e USING (user_id, id)
			ORDER BY user_id, id`, messageItem}
	case store.ItemEvent:
		return export{`
			SELECT user_id, first, block,
				ARRAY(SELECT r.first FROM posthaste.responses r WHERE r.user_id = e.user_id AND r.first >= e.first AND r.first < e.next ORDER BY r.first),
				ARRAY(SELECT r.record FROM posthaste.responses r WHERE r.user_id = e.user_id AND r.first >= e.first AND r.first < e.next ORDER BY r.first)
			FROM (
				SELECT user_id, first, block, lead(first, 1, 9223372036854775807) OVER (PARTITION BY user_id ORDER BY first) AS next
				FROM posthaste.events) AS e
			ORDER BY split_part(user_id, '` + store.PartitionMark + `', 1), first`, eventItems}
	default:
		return export{fmt.Sprintf(`SELECT user_id, key, value FROM posthaste.records WHERE kind = %d ORDER BY user_id, key`, kind), recordItem}
	}
}

func recordItem(r pgx.CollectableRow) ([]store.Item, error) {
	var i store.Item
	err := r.Scan(&i.User, &i.Key, &i.Value)
	return []store.Item{i}, err
}

// export yields the items of a kind while they are read.
func (s *Store) export(ctx context.Context, kind store.ItemKind, now time.Time, yield func(store.Item) error) error {
	return s.exportRows(ctx, kind, func(items []store.Item) error {
		for _, item := range items {
			if item.Expired(now) {
				continue
			}
			if err := yield(item); err != nil {
				return err
			}
		}
		return nil
	})
}

// exportRows yields the items of each row.
func (s *Store) exportRows(ctx context.Context, kind store.ItemKind, yield func([]store.Item) error) error {
	e := exportOf(kind)
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
		for i := range items {
			items[i].Kind = kind
		}
		if err := yield(items); err != nil {
			return err
		}
	}
	return found.Err()
}

// eventsAtOnce is how many events one query looks up messages for.
const eventsAtOnce = 1000

// eventMerge puts the events of a user's partitions in order. Their blocks come by their first events.
type eventMerge struct {
	user    string
	waiting []store.Item // of that user, in order
}

// add adds the events of a block, and returns those before it: no later block has an earlier one.
func (m *eventMerge) add(block []store.Item) (before []store.Item) {
	if len(block) == 0 {
		return nil
	}
	if user := store.UserOf(block[0].User); user != m.user {
		before, m.waiting, m.user = m.waiting, block, user
		return before
	}
	n, _ := slices.BinarySearchFunc(m.waiting, block[0], compareItems)
	before, rest := m.waiting[:n], m.waiting[n:]
	m.waiting = slices.Concat(rest, block)
	if len(rest) > 0 {
		slices.SortFunc(m.waiting, compareItems)
	}
	return before
}

func compareItems(a, b store.Item) int { return bytes.Compare(a.Key, b.Key) }

// blocks reads the events of a database block by block, by their users and first events.
type blocks struct {
	store *Store
	read  func() (block []store.Item, err error, more bool)
	stop  func()
	next  []store.Item // nil: there is no more
}

// readBlocks begins to read.
func (s *Store) readBlocks(ctx context.Context) *blocks {
	read, stop := iter.Pull2(func(yield func([]store.Item, error) bool) {
		err := s.exportRows(ctx, store.ItemEvent, func(block []store.Item) error {
			if len(block) > 0 && !yield(block, nil) {
				return store.ErrStop
			}
			return nil
		})
		if ignore(err, store.ErrStop) != nil {
			yield(nil, err)
		}
	})
	return &blocks{store: s, read: read, stop: stop}
}

func (b *blocks) advance() (err error) {
	b.next, err, _ = b.read()
	return err
}

// compareBlocks puts first what comes next of several databases.
func compareBlocks(a, b *blocks) int {
	switch {
	case a.next == nil || b.next == nil:
		return cmp.Compare(len(b.next), len(a.next))
	default:
		return cmp.Or(cmp.Compare(store.UserOf(a.next[0].User), store.UserOf(b.next[0].User)), compareItems(a.next[0], b.next[0]))
	}
}

// exportEvents skips events whose message retention has already removed.
func exportEvents(ctx context.Context, all []*Store, yield func(store.Item) error) (err error) {
	var events []store.Item
	flush := func() error {
		there, err := haveMessages(ctx, all, events)
		for i := 0; i < len(there) && err == nil; i++ {
			if there[i] {
				err = yield(events[i])
			}
		}
		events = events[:0]
		return err
	}
	add := func(more []store.Item) error {
		if events = append(events, more...); len(events) < eventsAtOnce {
			return nil
		}
		return flush()
	}
	var sources []*blocks
	for _, s := range all {
		source := s.readBlocks(ctx)
		defer source.stop()
		if err := source.advance(); err != nil {
			return err
		}
		sources = append(sources, source)
	}
	var merge eventMerge
	for first := slices.MinFunc(sources, compareBlocks); first.next != nil; first = slices.MinFunc(sources, compareBlocks) {
		if err := add(merge.add(first.next)); err != nil {
			return err
		}
		if err := first.advance(); err != nil {
			return err
		}
	}
	if err := add(merge.waiting); err != nil {
		return err
	}
	return flush()
}

// haveMessages reports for each event whether its message is stored, in the database where the event is.
func haveMessages(ctx context.Context, all []*Store, events []store.Item) ([]bool, error) {
	there := make([]bool, len(events))
	for _, s := range all {
		var own []int
		for i, event := range events {
			if s.placement.has(event.User) {
				own = append(own, i)
			}
		}
		found, err := s.haveMessages(ctx, column(own, func(i int) store.Item { return events[i] }))
		if err != nil {
			return nil, err
		}
		for n, i := range own {
			there[i] = found[n]
		}
	}
	return there, nil
}

// haveMessages uses the control pool: the other may have no connection left.
func (s *Store) haveMessages(ctx context.Context, events []store.Item) ([]bool, error) {
	d := s.Division()
	var users []string
	var ids [][16]byte
	var about []int64 // number of the event
	for i, event := range events {
		parts, err := record.Parts(event.Value, 3)
		if err != nil {
			return nil, err
		}
		id := posthaste.MessageID([16]byte(parts[0]))
		for _, holder := range append(d.Holders(store.UserOf(event.User), id), event.User) {
			users, ids, about = append(users, holder), append(ids, id), append(about, int64(i))
		}
	}
	return rows(ctx, s.control, pgx.RowTo[bool], `
		SELECT bool_or(EXISTS (SELECT FROM posthaste.messages m WHERE m.user_id = w.user_id AND m.id = w.id))
		FROM unnest($1::text[], $2::uuid[], $3::bigint[]) AS w (user_id, id, n) GROUP BY n ORDER BY n`, users, ids, about)
}

func messageItem(r pgx.CollectableRow) ([]store.Item, error) {
	var i store.Item
	var id [16]byte
	var envelope []byte
	var state int16
	var order, due *int64
	var p record.Place
	err := r.Scan(&i.User, &id, &envelope, &state, &p.Retried, &order, &due, &p.Callbacks, &p.CancelRequested)
	if err != nil {
		return nil, err
	}
	if p.State, err = record.StateOf(uint8(state)); err != nil {
		return nil, err
	}
	if order != nil {
		p.Order, p.DueAt = posthaste.Position(*order), time.UnixMilli(*due)
	}
	if _, err := record.DecodeMessage(id, i.User, envelope); err != nil {
		return nil, err
	}
	i.Key, i.Value = id[:], record.AppendParts(nil, envelope, record.AppendPlace(nil, &p))
	return []store.Item{i}, nil
}

// eventItems reads the events of a block with their responses.
func eventItems(r pgx.CollectableRow) (items []store.Item, err error) {
	var user string
	var first int64
	var block []byte
	var answered []int64
	var responses [][]byte
	if err := r.Scan(&user, &first, &block, &answered, &responses); err != nil {
		return nil, err
	}
	events, err := index.DecodeBlock(posthaste.Position(first), block, nil)
	for _, e := range events {
		var response []byte
		if n, has := slices.BinarySearch(answered, int64(e.Position)); has {
			response = responses[n]
		}
		items = append(items, store.Item{
			User: user, Key: binary.BigEndian.AppendUint64(nil, uint64(e.Position)),
			Value: record.AppendParts(nil, e.MessageID[:], record.AppendEvent(nil, &e), response),
		})
	}
	return items, err
}
