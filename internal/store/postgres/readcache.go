package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// prefetch is what a change will need. It is read with the first round trip, for all changes
// at once; anything else is read on demand.
type prefetch struct {
	live     []messageOf
	messages []messageOf
	records  []recordOf
	lanes    []laneID // into which messages are accepted
}

// add adds what another change will need.
func (w *prefetch) add(other prefetch) {
	w.live = append(w.live, other.live...)
	w.messages = append(w.messages, other.messages...)
	w.records = append(w.records, other.records...)
	w.lanes = append(w.lanes, other.lanes...)
}

// readCache is what was read, with the changes of the transaction. What is not in a map is not
// known.
type readCache struct {
	lives    map[messageOf]*liveMessage       // nil: there is none
	endings  map[messageOf]*ending            // nil: there is none
	messages map[messageOf]*posthaste.Message // envelopes; nil: there is none
	records  map[recordOf]*storedRecord
	keys     map[name]*flowKey // flow-control keys: their records, decoded
	lanes    map[laneID]laneCounts
}

func newReadCache() readCache {
	return readCache{
		map[messageOf]*liveMessage{}, map[messageOf]*ending{}, map[messageOf]*posthaste.Message{},
		map[recordOf]*storedRecord{}, map[name]*flowKey{}, map[laneID]laneCounts{},
	}
}

// unknown returns those that are not in a cache.
func unknown[K comparable, V any](wanted []K, cache map[K]V) (found []K) {
	seen := map[K]bool{}
	for _, k := range wanted {
		if _, known := cache[k]; !known && !seen[k] {
			seen[k] = true
			found = append(found, k)
		}
	}
	return found
}

// queue queues the reads of what is unknown.
func (c *readCache) queue(batch *pgx.Batch, w prefetch) {
	c.queueLive(batch, unknown(w.live, c.lives))
	c.queueMessages(batch, unknown(w.messages, c.messages))
	c.queueRecords(batch, unknown(w.records, c.records))
}

func (c *readCache) queueLive(batch *pgx.Batch, of []messageOf) {
	if len(of) == 0 {
		return
	}
	users, ids := messageColumns(of)
	batch.Queue(livesByID, users, ids).Query(func(found pgx.Rows) error {
		for _, m := range of {
			c.lives[m] = nil
		}
		_, err := pgx.CollectRows(found, c.scanLive)
		return err
	})
}

// queueEndings queues the reads of how messages ended.
func (c *readCache) queueEndings(batch *pgx.Batch, of []messageOf) {
	if len(of) == 0 {
		return
	}
	users, ids := messageColumns(of)
	batch.Queue(endingsByID, users, ids).Query(func(found pgx.Rows) error {
		for _, m := range of {
			c.endings[m] = nil
		}
		_, err := pgx.CollectRows(found, c.scanEnding)
		return err
	})
}

func (c *readCache) scanEnding(r pgx.CollectableRow) (*ending, error) {
	e := &ending{}
	var id [16]byte
	var state int16
	err := r.Scan(&e.user, &id, &state, &e.retried)
	if err == nil {
		e.state, err = record.StateOf(uint8(state))
	}
	e.id = id
	c.endings[e.messageOf] = e
	return e, err
}

func (c *readCache) queueMessages(batch *pgx.Batch, of []messageOf) {
	if len(of) == 0 {
		return
	}
	users, ids := messageColumns(of)
	batch.Queue(messagesByID, users, ids).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanMessage)
		if err == nil {
			c.addMessages(of, found)
		}
		return err
	})
}

// recordOf names a record.
type recordOf struct {
	user string
	kind store.ItemKind
	key  string
}

// storedRecord is a record that was read or written.
type storedRecord struct {
	recordOf
	value   []byte // nil: there is none
	due     *int64 // known only if it was written
	changed bool   // to be written
}

// recordColumns are the columns of records, for unnest.
func recordColumns(of []recordOf) []any {
	return []any{
		column(of, func(r recordOf) string { return r.user }),
		column(of, func(r recordOf) int16 { return int16(r.kind) }),
		column(of, func(r recordOf) []byte { return []byte(r.key) }),
	}
}

func (c *readCache) queueRecords(batch *pgx.Batch, of []recordOf) {
	if len(of) == 0 {
		return
	}
	batch.Queue(recordsByKey, recordColumns(of)...).Query(func(found pgx.Rows) error {
		for _, r := range of {
			c.records[r] = &storedRecord{recordOf: r}
		}
		var user string
		var kind int16
		var key, value []byte
		_, err := pgx.ForEachRow(found, []any{&user, &kind, &key, &value}, func() error {
			c.records[recordOf{user, store.ItemKind(kind), string(key)}].value = value
			return nil
		})
		return err
	})
}

// record returns the value of a record, or store.ErrNotFound.
func (c *readCache) record(ctx context.Context, q querier, of recordOf) ([]byte, error) {
	r := c.records[of]
	if r == nil {
		value, err := row(ctx, q, pgx.RowTo[[]byte], `
			SELECT value FROM posthaste.records WHERE user_id = $1 AND kind = $2 AND key = $3`,
			of.user, int16(of.kind), []byte(of.key))
		if ignore(err, store.ErrNotFound) != nil {
			return nil, err
		}
		r = &storedRecord{recordOf: of, value: value}
		c.records[of] = r
	}
	if r.value == nil {
		return nil, store.ErrNotFound
	}
	return r.value, nil
}

// place returns where a message stands, or store.ErrNotFound.
func (c *readCache) place(ctx context.Context, q querier, of messageOf) (*store.Place, error) {
	if l := c.lives[of]; l != nil && l.gone {
		return &store.Place{State: l.state, Retried: l.retried}, nil
	}
	l, err := c.liveOf(ctx, q, of)
	if err == nil {
		return l.asPlace(), nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	e, known := c.endings[of]
	if !known { // it was read after live, so a message that ends meanwhile is found in one of them
		e, err = row(ctx, q, c.scanEnding, `SELECT user_id, id, state, retried FROM posthaste.ended WHERE user_id = $1 AND id = $2`,
			of.user, [16]byte(of.id))
		if ignore(err, store.ErrNotFound) != nil {
			return nil, err
		}
	}
	if e == nil {
		return nil, store.ErrNotFound
	}
	return &store.Place{State: e.state, Retried: e.retried}, nil
}
