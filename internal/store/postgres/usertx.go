package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// turn is a transaction that has the turn of some users. It knows what it has read and
// gathers what is to be written: many rows of a table are one statement, many
// statements one round trip, and what several changes would change is written once.
type userTx struct {
	ctx        context.Context
	conn       *pgx.Conn
	store      *Store
	free       positions
	batch      *pgx.Batch // statements to be sent
	queuedLast *pgx.Batch // those that come right before the end
	writes     int        // how often something was written
	failed     error      // the transaction cannot be committed

	lockTimeout time.Duration // how long the turns of users are waited for; 0: as long as the context lasts

	readCache
	writeBatch
	totals
}

// known is what a turn has read, as its changes have left it.
type readCache struct {
	lives       map[messageOf]*liveMessage       // nil: there is none
	messages    map[messageOf]*posthaste.Message // envelopes
	keys        map[name]*flowKey                // flow-control keys
	submissions map[name]submission              // none: there is none
}

// name is a name of something that belongs to a user.
type name struct{ user, name string }

// nameColumns are the columns of names, for unnest.
func nameColumns(of []name) (users []string, names [][]byte) {
	return column(of, func(n name) string { return n.user }), column(of, func(n name) []byte { return []byte(n.name) })
}

type messageOf struct {
	user string
	id   posthaste.MessageID
}

// messageColumns are the columns of messages, for unnest.
func messageColumns(of []messageOf) (users []string, ids [][16]byte) {
	return column(of, func(m messageOf) string { return m.user }), column(of, func(m messageOf) [16]byte { return m.id })
}

// sums are what changes come to.
type totals struct {
	ends        map[string]posthaste.Position // of the logs that have grown
	laneChanges map[laneID]laneChange         // lanes in which something has happened
	usage       map[usageKey]usageChange      // by how much it has changed
}

func newUserTx(ctx context.Context, s *Store, conn *pgx.Conn) *userTx {
	return &userTx{
		ctx: ctx, conn: conn, store: s, batch: &pgx.Batch{}, queuedLast: &pgx.Batch{},
		readCache:  readCache{map[messageOf]*liveMessage{}, map[messageOf]*posthaste.Message{}, map[name]*flowKey{}, map[name]submission{}},
		writeBatch: newWriteBatch(),
		totals:     totals{map[string]posthaste.Position{}, map[laneID]laneChange{}, map[usageKey]usageChange{}},
	}
}

// tx is one change within a turn.
type tx struct {
	*userTx
	now time.Time
}

// beginTurn sets what holds for a turn. The database ends a transaction of which it
// has heard nothing for a while, so that a node whose network is cut does not keep a
// turn. Plans are kept, and must do for tables that grow: they use the indexes.
const txSettings = `
	SELECT set_config('idle_in_transaction_session_timeout', '5s', true), set_config('enable_seqscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

// lockUsers locks the rows of users, in order.
const lockUserRows = `SELECT user_id FROM posthaste.users WHERE user_id = ANY($1) ORDER BY user_id FOR UPDATE`

// lockFreeUsers locks those that nobody has locked.
const lockFreeUserRows = lockUserRows + ` SKIP LOCKED`

// take takes the turns of users by a statement and reads what the changes want, all in
// one round trip. It returns those whose turns it has.
func (t *userTx) lock(lock string, users []string, changes []*change) (taken []string, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`) // whatever the database does unless told
	batch.Queue(txSettings)
	if t.lockTimeout > 0 {
		batch.Queue(`SELECT set_config('lock_timeout', $1, true)`, fmt.Sprintf("%dms", t.lockTimeout.Milliseconds()))
	}
	collect(batch.Queue(lock, users), &taken, pgx.RowTo[string])
	t.queuePrefetch(batch, changes)
	err = t.send(batch)
	return taken, err
}

// begin takes the turns of users, who come into being by that.
func (t *userTx) begin(users []string, changes []*change) error {
	taken, err := t.lock(lockUserRows, users, changes)
	if err != nil || len(taken) == len(users) {
		return err
	}
	if err := t.rollback(); err != nil {
		return err
	}
	_, err = t.conn.Exec(t.ctx, `
		INSERT INTO posthaste.users (user_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`, users)
	if err != nil {
		return err
	}
	return t.begin(users, changes)
}

// exec adds a statement to what is to be written.
func (t *userTx) exec(sql string, args ...any) {
	t.writes++
	t.batch.Queue(sql, args...)
}

// send sends statements and returns when all are answered. A turn in which one has
// failed is lost.
func (t *userTx) send(batch *pgx.Batch) error {
	if batch.Len() == 0 {
		return nil
	}
	err := t.conn.SendBatch(t.ctx, batch).Close()
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}

// ask sends questions after what was written before, in one round trip.
func (t *userTx) ask(questions func(*pgx.Batch)) error {
	batch := t.takeWrites()
	questions(batch)
	return t.send(batch)
}

// collect lets the answer to a queued question become values.
func collect[T any](question *pgx.QueuedQuery, into *[]T, scan pgx.RowToFunc[T]) {
	question.Query(func(found pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(found, scan)
		return err
	})
}

// Query reads, after what was written before.
func (t *userTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	batch := t.takeWrites()
	before := batch.Len()
	batch.Queue(sql, args...)
	results := t.conn.SendBatch(ctx, batch)
	for range before {
		if _, err := results.Exec(); err != nil {
			t.failed = errors.Join(err, results.Close())
			return nil, t.failed
		}
	}
	found, err := results.Query()
	if err != nil {
		t.failed = errors.Join(err, results.Close())
		return nil, t.failed
	}
	return &answer{found, results, t}, nil
}

// answer is that to a question, which is the last of what was sent.
type answer struct {
	pgx.Rows
	results pgx.BatchResults
	turn    *userTx
}

// Close implements pgx.Rows.
func (a *answer) Close() {
	a.Rows.Close()
	if err := a.results.Close(); err != nil && a.turn.failed == nil {
		a.turn.failed = err
	}
}

// gather returns what is to be written and forgets it. The log is left out: nothing in
// a turn reads what is new in it, and it shall lie together.
func (t *userTx) takeWrites() *pgx.Batch {
	batch := t.batch
	t.batch = &pgx.Batch{}
	t.writeFlowKeys(batch)
	t.writeBatch.write(batch)
	return batch
}

// errUnknown says that a commit was asked for and not answered.
var errInDoubt = errors.New("postgres: it is not known whether the change took place")

// commit writes what is left and ends the transaction, in one round trip. It does not
// end with its context: what became of the transaction would not be known.
func (t *userTx) commit() error {
	batch := t.takeWrites()
	t.log.write(batch)
	t.totals.write(batch)
	batch.QueuedQueries = append(batch.QueuedQueries, t.queuedLast.QueuedQueries...)
	batch.Queue(`COMMIT`)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), callTime)
	defer cancel()
	err := t.conn.SendBatch(ctx, batch).Close()
	switch {
	case err == nil:
		return nil
	case rejected(err):
		t.store.partitions.forgetAll(err)
		return errors.Join(err, t.rollback())
	default:
		return fmt.Errorf("%w: %w", errInDoubt, err)
	}
}

// rollback ends the transaction as if it had not been.
func (t *userTx) rollback() error {
	_, err := t.conn.Exec(t.ctx, `ROLLBACK`)
	return err
}

// write writes what the changes come to.
func (s *totals) write(batch *pgx.Batch) {
	for user, end := range s.ends {
		batch.Queue(`UPDATE posthaste.users SET position = $2 WHERE user_id = $1`, user, int64(end))
	}
	for of, k := range s.usage {
		writeUsage(batch, of, k)
	}
	writeLanes(batch, s.laneChanges)
}

// advance counts a change as part of a user's bulk action, if it is of one that
// there still is. One that has ended fails it.
func (tx *tx) advance(user string, step *store.Step, processed int, failures []posthaste.ActionFailure) error {
	if step == nil {
		return nil
	}
	action, err := actions.get(tx.ctx, tx, user, step.ActionID)
	if err != nil {
		return ignore(err, store.ErrNotFound)
	}
	if err := step.Check(action); err != nil {
		return err
	}
	step.Advance(action, processed, failures)
	actions.put(tx, user, action)
	return nil
}

// positionsAtOnce is how many positions a transaction takes: enough for most. What it
// does not use nobody uses.
const positionsAtOnce = 1024

// positions are some that a turn has taken and not used.
type positions struct {
	next posthaste.Position
	left int
}

// takePositions asks for positions that follow each other, none below the lowest.
func (t *userTx) takePositions(batch *pgx.Batch, count int, lowest posthaste.Position) {
	batch.Queue(`SELECT posthaste.take_positions($1, $2)`, count, int64(lowest)).QueryRow(func(r pgx.Row) error {
		var first int64
		err := r.Scan(&first)
		t.free = positions{posthaste.Position(first), count}
		return err
	})
}

// nextPosition takes the next position for a user's log. Positions are taken in the
// user's turn and ascend over all users, so they ascend in the order of commit for
// each.
func (tx *tx) nextPosition(user string) posthaste.Position {
	tx.writes++
	tx.reserve(1)
	p := tx.free.next
	tx.free.next++
	tx.free.left--
	tx.ends[user] = p
	return p
}

// peek returns the n-th position from here, which the n-th event will have.
func (tx *tx) peek(n int) posthaste.Position {
	tx.reserve(n)
	return tx.free.next + posthaste.Position(n-1)
}

// reserve sees to it that the next n positions follow each other, and are not below
// those of the present time.
func (tx *tx) reserve(n int) {
	lowest := posthaste.FirstPosition(tx.now)
	if tx.free.left >= n && tx.free.next >= lowest {
		return
	}
	tx.free = positions{}
	_ = tx.ask(func(batch *pgx.Batch) { tx.takePositions(batch, max(n, positionsAtOnce), lowest) }) // a failure is the turn's
}
