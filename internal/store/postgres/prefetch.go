package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// prefetch is what a change will need. It is read with the first round trip, for all changes
// at once; anything else is read on demand.
type prefetch struct {
	live        []messageOf
	messages    []messageOf
	records     []recordOf
	submissions []name // hashed deduplication keys
}

// add adds what another change will need.
func (w *prefetch) add(other prefetch) {
	w.live = append(w.live, other.live...)
	w.messages = append(w.messages, other.messages...)
	w.records = append(w.records, other.records...)
	w.submissions = append(w.submissions, other.submissions...)
}

// flowKeyOf names the record of a flow-control key.
func flowKeyOf(user, key string) recordOf { return recordOf{user, store.ItemFlowKey, key} }

// queuePrefetch queues the reads of all changes, and takes positions for their events.
func (t *userTx) queuePrefetch(batch *pgx.Batch, changes []*change) {
	var all prefetch
	var logs bool
	lowest := changes[0].now
	for _, c := range changes {
		all.add(c.prefetch)
		logs = logs || !c.now.IsZero()
		if c.now.After(lowest) {
			lowest = c.now
		}
	}
	if logs {
		t.takePositions(batch, positionsAtOnce, posthaste.FirstPosition(lowest))
	}
	t.queue(batch, all)
	t.prefetchSubmissions(batch, all.submissions)
}

// submission is a stored deduplication key.
type submission struct {
	at          int64
	ids         []posthaste.MessageID
	undelivered bool // all had ended without delivery when the transaction began
}

func (t *userTx) prefetchSubmissions(batch *pgx.Batch, of []name) {
	if len(of) == 0 {
		return
	}
	users, keys := nameColumns(of)
	batch.Queue(`
		SELECT user_id, key, at, ids, cardinality(ids) = (
			SELECT count(*) FROM posthaste.ended e WHERE e.user_id = s.user_id AND e.id = ANY(s.ids) AND e.state = ANY($3))
		FROM unnest($1::text[], $2::bytea[]) AS wanted (user_id, key)
		JOIN posthaste.submissions s USING (user_id, key)`, users, keys, undeliveredStates).Query(func(found pgx.Rows) error {
		var of name
		var key []byte
		var at int64
		var ids [][16]byte
		var undelivered bool
		_, err := pgx.ForEachRow(found, []any{&of.user, &key, &at, &ids, &undelivered}, func() error {
			of.name = string(key)
			t.submissions[of] = submission{at, column(ids, func(id [16]byte) posthaste.MessageID { return id }), undelivered}
			return nil
		})
		return err
	})
}

// undeliveredStates are the codes of states for which store.Undelivered is true.
var undeliveredStates = func() (codes []int16) {
	for _, state := range posthaste.States {
		if store.Undelivered(state) {
			codes = append(codes, int16(record.StateCode(state)))
		}
	}
	return codes
}()
