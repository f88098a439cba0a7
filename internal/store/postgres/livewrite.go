package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste/internal/store/record"
)

// liveRows are the columns of rows of live.
type liveRows struct {
	users     []string
	ids       [][16]byte
	kinds     []int16
	lanes     [][]byte
	places    []int64
	dues      []int64
	states    []int16
	retried   []int32
	begun     []bool
	ended     []bool
	callbacks []int32
	cancels   []bool
	leases    []int64
	nodes     []int64
	keys      [][]byte
}

func (r *liveRows) add(l *liveMessage) {
	r.users, r.ids = append(r.users, l.user), append(r.ids, l.id)
	r.kinds, r.lanes = append(r.kinds, l.lane.kind), append(r.lanes, []byte(l.lane.name))
	r.places, r.dues = append(r.places, int64(l.place)), append(r.dues, l.dueMS)
	r.states, r.retried = append(r.states, int16(record.StateCode(l.state))), append(r.retried, int32(l.retried))
	r.begun, r.ended = append(r.begun, l.begun), append(r.ended, l.ended)
	r.callbacks, r.cancels = append(r.callbacks, int32(l.callbacks)), append(r.cancels, l.cancelRequested)
	r.leases, r.nodes = append(r.leases, l.lease), append(r.nodes, l.node)
	r.keys = append(r.keys, l.flowKey)
}

// writeLives writes where messages stand now, and that this is what is stored.
func writeLives(batch *pgx.Batch, changed []*liveMessage) {
	var fresh, old, gone liveRows
	for _, l := range changed {
		switch {
		case !l.gone && !l.stored:
			fresh.add(l)
		case !l.gone:
			old.add(l)
		case l.stored:
			gone.add(l)
		}
		l.stored, l.dirty = !l.gone, false
	}
	gone.delete(batch)
	old.update(batch)
	fresh.insert(batch)
}

func (r *liveRows) delete(batch *pgx.Batch) {
	if len(r.ids) == 0 {
		return
	}
	batch.Queue(`
		DELETE FROM posthaste.live l USING unnest($1::text[], $2::uuid[]) AS r (user_id, id)
		WHERE l.user_id = r.user_id AND l.id = r.id`, r.users, r.ids)
}

func (r *liveRows) update(batch *pgx.Batch) {
	if len(r.ids) == 0 {
		return
	}
	batch.Queue(`
		UPDATE posthaste.live l SET place = r.place, due = r.due, state = r.state, retried = r.retried, begun = r.begun,
			ended = r.ended, callbacks = r.callbacks, cancel_requested = r.cancel, lease = r.lease, node = r.node
		FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[], $5::smallint[], $6::integer[], $7::boolean[],
				$8::boolean[], $9::integer[], $10::boolean[], $11::bigint[], $12::bigint[])
			AS r (user_id, id, place, due, state, retried, begun, ended, callbacks, cancel, lease, node)
		WHERE l.user_id = r.user_id AND l.id = r.id`,
		r.users, r.ids, r.places, r.dues, r.states, r.retried, r.begun,
		r.ended, r.callbacks, r.cancels, r.leases, r.nodes)
}

func (r *liveRows) insert(batch *pgx.Batch) {
	if len(r.ids) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO posthaste.live (`+liveColumns+`)
		SELECT * FROM unnest($1::text[], $2::uuid[], $3::smallint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::smallint[], $8::integer[],
			$9::boolean[], $10::boolean[], $11::integer[], $12::boolean[], $13::bigint[], $14::bigint[], $15::bytea[])`,
		r.users, r.ids, r.kinds, r.lanes, r.places, r.dues, r.states, r.retried,
		r.begun, r.ended, r.callbacks, r.cancels, r.leases, r.nodes, r.keys)
}
