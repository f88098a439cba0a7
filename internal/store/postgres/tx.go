package postgres

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// turn is a transaction that has the turn of some users, with what the changes made in it
// come to: the rows that many of them would change are written once, at its end.
type turn struct {
	ctx   context.Context
	pg    pgx.Tx
	store *Store
	free  positions
	sums
}

// sums are what changes come to.
type sums struct {
	ends    map[string]posthaste.Position // of the logs that have grown
	touched map[laneID]int                // lanes in which something has happened, see touch
	kept    map[keptOf]kept               // by how much it has changed
}

func newSums() sums {
	return sums{map[string]posthaste.Position{}, map[laneID]int{}, map[keptOf]kept{}}
}

// add adds what a change comes to.
func (s *sums) add(o sums) {
	maps.Copy(s.ends, o.ends)
	for lane, live := range o.touched {
		s.touched[lane] += live
	}
	for of, k := range o.kept {
		s.kept[of] = kept{s.kept[of].entries + k.entries, s.kept[of].bytes + k.bytes}
	}
}

// tx is one change within a turn. What it writes is gathered and sent when it reads or
// ends, so that many statements cost one round trip.
type tx struct {
	*turn
	now    time.Time
	batch  *pgx.Batch
	began  bool  // to write
	sent   bool  // some of it was
	failed error // of what could not say so when it failed
	keys   map[name]*flowKey
	own    sums
}

func (t *turn) newTx(now time.Time) *tx {
	return &tx{turn: t, now: now, batch: &pgx.Batch{}, keys: map[name]*flowKey{}, own: newSums()}
}

// name is a name of something that belongs to a user.
type name struct{ user, name string }

// exec adds a statement to what is to be written. What a change writes begins with a
// savepoint, so that it can be taken back alone.
func (tx *tx) exec(sql string, args ...any) {
	if !tx.began {
		tx.began = true
		tx.batch.Queue(`SAVEPOINT change`)
	}
	tx.batch.Queue(sql, args...)
}

// flush writes what was gathered.
func (tx *tx) flush() error {
	if tx.batch.Len() == 0 {
		return nil
	}
	batch := tx.batch
	tx.batch, tx.sent = &pgx.Batch{}, true
	return tx.pg.SendBatch(tx.ctx, batch).Close()
}

// finish writes what is left.
func (tx *tx) finish() error {
	tx.saveFlowKeys()
	if tx.began {
		tx.exec(`RELEASE SAVEPOINT change`)
	}
	return tx.flush()
}

// Query reads, after what was written before.
func (tx *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := tx.flush(); err != nil {
		return nil, err
	}
	return tx.pg.Query(ctx, sql, args...)
}

// write writes what the changes come to.
func (t *turn) write() error {
	batch := &pgx.Batch{}
	for user, end := range t.ends {
		batch.Queue(`UPDATE posthaste.users SET position = $2 WHERE user_id = $1`, user, int64(end))
	}
	for of, k := range t.kept {
		writeKept(batch, of, k)
	}
	for lane, live := range t.touched {
		writeTouch(batch, lane, live)
	}
	if batch.Len() == 0 {
		return nil
	}
	return t.pg.SendBatch(t.ctx, batch).Close()
}

// event adds an event to a user's log.
func (tx *tx) event(user string, e posthaste.Event) posthaste.Position {
	e.Position = tx.nextPosition(user)
	var response []byte
	if e.Response != nil {
		response = record.AppendResponse(nil, e.Response)
	}
	stored := record.AppendEvent(nil, &e)
	tx.exec(`
		INSERT INTO posthaste.events (user_id, position, message_id, state, record, response)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		user, int64(e.Position), [16]byte(e.MessageID), int16(record.StateCode(e.State)), stored, response)
	tx.count(keptOf{user, keptLog, dayOf(e.Position)}, 1, len(stored)+len(response)+eventOverhead)
	return e.Position
}

// advance counts a change as part of a user's bulk action, if it is of one that
// there still is.
func (tx *tx) advance(user string, step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	if step == nil {
		return nil
	}
	action, err := actions.get(tx.ctx, tx, user, step.ActionID)
	if err != nil {
		return except(err, store.ErrNotFound)
	}
	step.Advance(action, processed, failures)
	actions.put(tx, user, action)
	return nil
}
