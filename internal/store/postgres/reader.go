package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// asker asks a database, within a transaction or outside.
type asker interface {
	querier

	// ask sends queries in one round trip.
	ask(questions func(*pgx.Batch)) error
}

// outside asks outside of the transactions of changes. From a pool each statement sees what is
// committed by then.
type outside struct {
	batcher
	ctx context.Context
}

// batcher is a pool or a transaction.
type batcher interface {
	querier
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

func (o outside) ask(questions func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	if questions(batch); batch.Len() == 0 {
		return nil
	}
	return o.SendBatch(o.ctx, batch).Close()
}

// reader implements store.Reader.
type reader struct {
	asker
	*readCache
	ctx   context.Context
	store *Store
	user  string
}

// View implements store.Backend.
func (s *Store) View(ctx context.Context, scope store.Scope, view func(store.Reader) error) (err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	cache := newReadCache()
	r := &reader{outside{s.pool, ctx}, &cache, ctx, s, scope.User}
	if err := r.Fetch(scope.Hint); err != nil {
		return err
	}
	return view(r)
}

// prefetchOf is what a hint names.
func prefetchOf(user string, hint store.Hint) prefetch {
	of := func(id posthaste.MessageID) messageOf { return messageOf{user, id} }
	return prefetch{
		live:     column(hint.Places, of),
		messages: column(hint.Messages, of),
		records:  column(hint.Records, func(r store.RecordKey) recordOf { return recordOf{user, r.Kind, string(r.Key)} }),
		lanes:    lanesToClaimFrom(user, hint.Accepts),
	}
}

// wholeReader reads the records of a user in whichever partition they are.
type wholeReader struct {
	store.Reader // of one
	user         string
	partitions   store.Partitions
	readerOf     func(partition string) *reader
}

func (r wholeReader) of(k store.RecordKey) recordOf {
	return recordOf{r.partitions.Of(store.UserOf(r.user), k.Slot()), k.Kind, string(k.Key)}
}

func (r wholeReader) Get(kind store.ItemKind, key []byte) ([]byte, error) {
	of := r.of(store.RecordKey{Kind: kind, Key: key})
	own := r.readerOf(of.user)
	return own.record(own.ctx, own, of)
}

// fetch reads records ahead.
func (r wholeReader) fetch(records []store.RecordKey) error {
	in := map[*reader][]recordOf{}
	for _, of := range column(records, r.of) {
		own := r.readerOf(of.user)
		in[own] = append(in[own], of)
	}
	for own, some := range in {
		if err := own.ask(func(batch *pgx.Batch) { own.queueRecords(batch, unknown(some, own.records)) }); err != nil {
			return err
		}
	}
	return nil
}

// Fetch asks last how messages have ended, so that one that ends meanwhile is found.
func (r *reader) Fetch(hint store.Hint) error {
	w := prefetchOf(r.user, hint)
	return r.ask(func(batch *pgx.Batch) {
		r.queue(batch, w)
		r.queueEndings(batch, unknown(slices.DeleteFunc(w.live, func(m messageOf) bool { return r.lives[m] != nil }), r.endings))
	})
}

func (r *reader) Get(kind store.ItemKind, key []byte) ([]byte, error) {
	return r.record(r.ctx, r, recordOf{r.user, kind, string(key)})
}

func (r *reader) Message(id posthaste.MessageID) (*posthaste.Message, error) {
	of := messageOf{r.user, id}
	err := r.readMessages(r.ctx, r, []messageOf{of})
	if err == nil && r.messages[of] == nil {
		if l := r.lives[of]; l == nil || l.gone {
			return nil, store.ErrNotFound
		}
		err = unreadableError{of: errNoEnvelope}
	}
	if unreadable, ok := errors.AsType[unreadableError](err); ok {
		r.store.setAside.add(unreadable, r.store.logger)
	}
	return r.messages[of], err
}

func (r *reader) Place(id posthaste.MessageID) (*store.Place, error) {
	return r.place(r.ctx, r, messageOf{r.user, id})
}

// LaneLengths implements store.Reader.
func (r *reader) LaneLengths(lanes []posthaste.Lane) ([]int, error) {
	of := column(lanes, func(l posthaste.Lane) laneID { return laneIn(r.user, l) })
	return rows(r.ctx, r, pgx.RowTo[int], `
		SELECT coalesce((SELECT live FROM posthaste.lanes WHERE user_id = w.u AND kind = w.k AND lane = w.l ORDER BY moved DESC LIMIT 1), 0)
		FROM unnest($1::text[], $2::smallint[], $3::bytea[]) WITH ORDINALITY AS w (u, k, l, n) ORDER BY w.n`, laneKeys(of)...)
}

// UnderKeys implements store.Reader. It looks at all messages.
func (r *reader) UnderKeys(keys []string, dueBy time.Time, _ int) ([]store.KeyUse, error) {
	return rows(r.ctx, r, pgx.RowToStructByPos[store.KeyUse], `
		SELECT
			(SELECT count(*) FROM posthaste.live l WHERE l.user_id = $1 AND l.flow_key = k.key AND lease <> 0),
			(SELECT count(*) FROM posthaste.live l WHERE l.user_id = $1 AND l.flow_key = k.key AND lease = 0 AND NOT ended AND due <= $3)
		FROM unnest($2::bytea[]) WITH ORDINALITY AS k (key, n) ORDER BY k.n`,
		r.user, column(keys, func(k string) []byte { return []byte(k) }), dueBy.UnixMilli())
}

// storedValue is a record as a scan or a search finds it.
type storedValue struct {
	key   []byte
	value []byte // nil beyond the byte limit
	more  bool   // others follow
}

func scanValue(r pgx.CollectableRow) (v storedValue, err error) {
	err = r.Scan(&v.key, &v.value, &v.more)
	return v, err
}

// listedAtOnce and listedOverhead bound a scan: its records, and the memory of each beside its value.
const (
	listedAtOnce   = 10_000
	listedOverhead = 512
)

// Scan reads what it visits by one statement, before it visits it.
func (r *reader) Scan(kind store.ItemKind, prefix, after []byte, limit int, visit func(key, value []byte) error) (more bool, err error) {
	limit = max(1, min(limit, listedAtOnce))
	args := []any{r.user, int16(kind), append([]byte{}, prefix...), append([]byte{}, after...), limit, listedOverhead, store.PageBytes}
	within := ``
	if end := store.PrefixEnd(prefix); end != nil {
		args = append(args, end)
		within = `AND key < $8`
	}
	found, err := rows(r.ctx, r, scanValue, `
		SELECT key, value, more FROM (
			SELECT key, value, lead(key) OVER (ORDER BY key) IS NOT NULL AS more,
				sum(octet_length(key) + octet_length(value) + $6::integer) OVER (ORDER BY key) AS upto, row_number() OVER (ORDER BY key) AS n
			FROM (
				SELECT key, value FROM posthaste.records
				WHERE user_id = $1 AND kind = $2 AND key >= $3 AND key > $4 `+within+` ORDER BY key LIMIT $5::integer + 1) AS first) AS sized
		WHERE n = 1 OR n <= $5 AND upto <= $7 ORDER BY key`, args...)
	if err != nil {
		return false, err
	}
	for _, v := range found {
		if more, err = v.more, visit(v.key, v.value); err != nil {
			return more, err
		}
	}
	return more, nil
}
