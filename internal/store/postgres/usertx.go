package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres/node"
)

// userTx is a transaction that has locked some users. It caches what it read and collects
// writes: the rows of a table become one statement, all statements one round trip, and totals
// are written once.
type userTx struct {
	ctx        context.Context
	conn       *pgx.Conn
	store      *Store
	batch      *pgx.Batch // queued statements
	queuedLast *pgx.Batch // queued for right before COMMIT
	writes     int        // number of writes
	failed     error      // the transaction cannot be committed
	ready      bool       // it has left a lane that Claim should look at
	latest     time.Time  // the time of the latest of its changes

	arrived   []*liveMessage // accepted messages that are left to Claim, unless the commit claims them
	newClaims []store.Claim  // made by the commit

	lockTimeout time.Duration // for users; 0: as long as the context lasts
	idleTimeout string        // longer than that of txSettings; empty: that
	onlyWakes   bool          // see wakeWaiting

	last    map[string]posthaste.Position // that each locked user's log has, with what the transaction adds
	divided map[string]store.Partitions   // into how many partitions users are, of locked partitions, and of users who have any

	readCache
	writeBatch
	totals
}

// name is the name of something of a user.
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

// totals are the sums of what the changes did.
type totals struct {
	grown       map[string]bool          // users whose logs have new positions
	laneChanges map[laneID]laneChange    // lanes in which something has happened
	reopened    map[laneID]bool          // lanes of queues that have changed
	freedKeys   map[name]bool            // flow-control keys that have capacity again
	waitingFor  []name                   // those that lanes of partitions wait for that are not locked
	freedAway   []name                   // those of partitions in other databases
	usage       map[usageKey]usageChange // by how much it has changed
}

func newUserTx(ctx context.Context, s *Store, conn *pgx.Conn) *userTx {
	return &userTx{
		ctx: ctx, conn: conn, store: s, batch: &pgx.Batch{}, queuedLast: &pgx.Batch{},
		readCache:  newReadCache(),
		writeBatch: newWriteBatch(),
		last:       map[string]posthaste.Position{},
		divided:    map[string]store.Partitions{},
		totals:     totals{map[string]bool{}, map[laneID]laneChange{}, map[laneID]bool{}, map[name]bool{}, nil, nil, map[usageKey]usageChange{}},
	}
}

// tx is one change within a transaction.
type tx struct {
	*userTx
	now time.Time
}

// txSettings ends a transaction that is idle for 5 s, so that a node that lost its network
// does not keep users locked. A plan is made once for each connection, whatever the parameters, and
// must suit growing tables, so it uses the indexes.
const txSettings = `
	SELECT set_config('idle_in_transaction_session_timeout', '5s', true), set_config('enable_seqscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
		set_config('plan_cache_mode', 'force_generic_plan', true)`

var (
	lockUserRows     = fmt.Sprintf(userRows, `FOR UPDATE`)
	lockFreeUserRows = fmt.Sprintf(userRows, `FOR UPDATE SKIP LOCKED`)
)

// userRows locks users in their order. What a row has become while its lock was awaited has a higher
// position.
const userRows = `
	SELECT found.* FROM unnest($1::text[]) AS w (user_id), LATERAL (
		SELECT user_id, position, partitions FROM posthaste.users
		WHERE user_id = w.user_id AND position >= (` + lastPosition + `) %s) AS found`

// lastPosition is that of a user w.
const lastPosition = `SELECT max(position) FROM posthaste.users WHERE user_id = w.user_id`

// lock begins the transaction, locks users by a statement and prefetches, in one round trip.
// It returns the users it has locked.
func (t *userTx) lock(lock string, users []string, changes []*change) (taken []string, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`) // whatever the database's default is
	batch.Queue(txSettings)
	if t.lockTimeout > 0 {
		batch.Queue(`SELECT set_config('lock_timeout', $1, true)`, fmt.Sprintf("%dms", t.lockTimeout.Milliseconds()))
	}
	if t.idleTimeout != "" {
		batch.Queue(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, t.idleTimeout)
	}
	batch.Queue(lock, users).Query(func(found pgx.Rows) error {
		var user string
		var last int64
		var divided store.Partitions
		_, err := pgx.ForEachRow(found, []any{&user, &last, &divided}, func() error {
			taken = append(taken, user)
			t.last[user], t.divided[user] = posthaste.Position(last), divided
			if whole := store.UserOf(user); t.divided[whole] == 0 || divided < t.divided[whole] {
				t.divided[whole] = divided
			}
			return nil
		})
		return err
	})
	var all prefetch
	for _, c := range changes {
		all.add(c.prefetch)
	}
	t.queue(batch, all)
	if t.store.accepted.anyFree() {
		t.queueLanes(batch, all.lanes)
	}
	err = t.send(batch)
	return taken, err
}

// begin locks users, and creates their rows if they are new.
func (t *userTx) begin(users []string, changes []*change) error {
	for made := false; ; made = true {
		taken, err := t.lock(lockUserRows, users, changes)
		if err != nil || len(taken) == len(users) {
			return err
		}
		if err := t.rollback(); err != nil {
			return err
		}
		if made { // the user is not divided into that partition
			return store.ErrDivided
		}
		if err := t.store.createUsers(t.ctx, t.conn, users); err != nil {
			return err
		}
		t.readCache = newReadCache() // it was read without a lock
	}
}

// createUsers makes the rows of the users of partitions, unless they exist: all rows of a user at once.
func (s *Store) createUsers(ctx context.Context, conn execer, partitions []string) error {
	d, err := s.divisionOfNew(ctx, conn)
	if err != nil {
		return err
	}
	var firsts, parts []string
	for _, user := range slices.Compact(slices.Sorted(slices.Values(column(partitions, store.UserOf)))) {
		own := slices.DeleteFunc(slices.Compact(d.All(user)), func(part string) bool { return !s.placement.has(part) })
		for _, part := range own {
			firsts, parts = append(firsts, own[0]), append(parts, part)
		}
	}
	_, err = conn.Exec(ctx, createUsers, firsts, parts, d)
	return err
}

// execer is a pool or a connection.
type execer interface {
	querier
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

const createUsers = `
	WITH made AS (
		INSERT INTO posthaste.indexed (user_id) SELECT part FROM unnest($1::text[], $2::text[]) AS w (first, part) WHERE part = first
		ON CONFLICT DO NOTHING RETURNING user_id),
	parts AS MATERIALIZED (SELECT first, part FROM made JOIN unnest($1::text[], $2::text[]) AS w (first, part) ON first = user_id),
	others AS (INSERT INTO posthaste.indexed (user_id) SELECT part FROM parts WHERE part <> first)
	INSERT INTO posthaste.users (user_id, partitions) SELECT part, $3 FROM parts`

// exec queues a statement.
func (t *userTx) exec(sql string, args ...any) {
	t.writes++
	t.batch.Queue(sql, args...)
}

// send sends statements and waits for their results. If one fails, so does the transaction.
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

// ask sends queries after the queued writes, in one round trip.
func (t *userTx) ask(questions func(*pgx.Batch)) error {
	batch := t.takeWrites()
	questions(batch)
	return t.send(batch)
}

func collect[T any](question *pgx.QueuedQuery, into *[]T, scan pgx.RowToFunc[T]) {
	question.Query(func(found pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(found, scan)
		return err
	})
}

// Query implements querier. Queued writes are sent first.
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

// answer is the result of a query that was sent last in a batch.
type answer struct {
	pgx.Rows
	results pgx.BatchResults
	tx      *userTx
}

func (a *answer) Close() {
	a.Rows.Close()
	if err := a.results.Close(); err != nil && a.tx.failed == nil {
		a.tx.failed = err
	}
}

// takeWrites returns the queued writes and clears them, except the log: the transaction does
// not read its new events, and they are best written together.
func (t *userTx) takeWrites() *pgx.Batch {
	batch := t.batch
	t.batch = &pgx.Batch{}
	t.saveFlowKeys()
	t.writeBatch.write(batch)
	return batch
}

// commit sends the rest and commits, in one round trip, and notifies those who wait for users. It
// outlives the context of the transaction, so that the outcome is known.
func (t *userTx) commit(users []string) error {
	if err := t.claimAccepted(); err != nil {
		return err
	}
	batch, blocks := t.lastWrites()
	batch.Queue(`COMMIT`)
	return t.committed(users, blocks, t.sendLast(batch))
}

// lastWrites returns what is left to be written.
func (t *userTx) lastWrites() (*pgx.Batch, []newBlock) {
	batch := t.takeWrites()
	blocks := t.log.take(t.usage)
	t.log.write(batch)
	if t.log.direct {
		t.store.series.write(batch, t.log.Counts)
	}
	t.writeTotals(batch, blocks)
	for of, k := range t.usage {
		writeUsage(batch, of, k)
	}
	t.writeReopened(batch)
	t.writeFreedKeys(batch)
	batch.QueuedQueries = append(batch.QueuedQueries, t.queuedLast.QueuedQueries...)
	return batch, blocks
}

// sendLast sends what ends the transaction.
func (t *userTx) sendLast(batch *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), callTime)
	defer cancel()
	return t.conn.SendBatch(ctx, batch).Close()
}

// committed does what follows from the answer to a commit.
func (t *userTx) committed(users []string, blocks []newBlock, err error) error {
	switch {
	case err == nil:
		t.grew(blocks)
		t.store.accepted.add(t.newClaims)
		t.store.changed(t, users)
		t.wakeElsewhere()
		return nil
	case rejected(err):
		t.store.days.forgetAll(err)
		t.dropClaimed()
		return errors.Join(err, t.rollback())
	default:
		t.grew(blocks)
		t.store.held.doubt(t.newClaims)
		t.dropClaimed()
		return fmt.Errorf("%w: %w", node.ErrInDoubt, err)
	}
}

// grew notes that blocks are to be added to the index, once they are committed: it is not looked for
// them before.
func (t *userTx) grew(blocks []newBlock) {
	if !t.log.direct {
		t.store.grown.add(column(blocks, func(b newBlock) string { return b.User })...)
	}
}

func (t *userTx) rollback() error {
	_, err := t.conn.Exec(t.ctx, `ROLLBACK`)
	return err
}

// writeTotals writes blocks of the log, where logs end then, and the changes of lanes, and returns whether
// Claim should look at one of those: if something has happened there ($12), or a slot is free ($13) and the
// lane is to be looked at so soon ($17) that a message may wait for one. If each message in a lane is claimed,
// there is nothing to see. Almost each commit writes all three. A lane without a message
// stays: most get another one, and their rows are then found at once.
const writeTotals = `
	WITH change AS MATERIALIZED (
		SELECT w.*, found.at
		FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::integer[], $5::integer[], $6::integer[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::boolean[], $13::boolean[], $14::smallint[])
			AS w (user_id, kind, lane, live, in_flight, retrying, ready, served, front, lowest, moved, look, freed, shard)
		LEFT JOIN LATERAL (` + laneRow + `) AS found ON true),
	changed AS (
		UPDATE posthaste.lanes l SET live = l.live + w.live, in_flight = l.in_flight + w.in_flight, retrying = l.retrying + w.retrying,
			ready = CASE WHEN (w.look OR w.freed) AND l.live + w.live = l.in_flight + w.in_flight THEN NULL
				WHEN w.ready = -1 OR w.freed AND l.ready > w.ready + $17 THEN l.ready ELSE w.ready END,
			served = greatest(l.served, w.served), front = least(coalesce(w.front, l.front), w.lowest), moved = greatest(l.moved, w.moved)
		FROM change w WHERE l.ctid = w.at
		RETURNING l.ready = w.ready AND (w.look OR w.freed) AS look),
	made AS (
		INSERT INTO posthaste.lanes (user_id, kind, lane, shard, live, in_flight, retrying, ready, served, front, moved)
		SELECT user_id, kind, lane, shard, live, in_flight, retrying, CASE WHEN live > in_flight THEN nullif(ready, -1) END, served, lowest, moved FROM change WHERE at IS NULL
		RETURNING ready IS NOT NULL AS look),
	ends AS (
		UPDATE posthaste.users SET position = w.position FROM (
			SELECT found.at, w.position FROM unnest($15::text[], $16::bigint[]) AS w (user_id, position), LATERAL (
				SELECT ctid AS at FROM posthaste.users WHERE user_id = w.user_id ORDER BY position DESC LIMIT 1) AS found) AS w
		WHERE ctid = w.at),
	logged AS (
		INSERT INTO posthaste.events (user_id, first, block, entries, number, bytes)
		SELECT * FROM unnest($18::text[], $19::bigint[], $20::bytea[], $21::bytea[], $22::bigint[], $23::bigint[]))
	SELECT EXISTS (SELECT FROM changed WHERE look) OR EXISTS (SELECT FROM made WHERE look)`

// writeTotals writes the sums of the changes, with blocks of the log.
func (t *userTx) writeTotals(batch *pgx.Batch, blocks []newBlock) {
	t.leaveToClaim()
	users := slices.Collect(maps.Keys(t.grown))
	if len(users)+len(t.laneChanges)+len(blocks) == 0 {
		return
	}
	own := t.store.share.Load().hasAny(t.laneChanges)
	ends := []any{users, column(users, func(user string) int64 { return int64(t.last[user]) }), freedBefore.Milliseconds()}
	batch.Queue(writeTotals, slices.Concat(t.laneColumns(), ends, blockColumns(blocks))...).QueryRow(func(r pgx.Row) error {
		var ready bool
		err := r.Scan(&ready)
		t.ready = t.ready || ready && own
		return err
	})
	clear(t.grown)
	clear(t.laneChanges)
	clear(t.lanes) // as they were before these changes
}

// at returns a change within the transaction.
func (t *userTx) at(now time.Time) *tx {
	if now.After(t.latest) {
		t.latest = now
	}
	return &tx{userTx: t, now: now}
}

// locked reports whether a user is.
func (t *userTx) locked(user string) bool {
	_, locked := t.last[user]
	return locked
}

func (t *userTx) notLocked(user string) bool { return !t.locked(user) }

// divisionOf is how the user of a partition is divided: that cannot change while one of its partitions is
// locked.
func (t *userTx) divisionOf(partition string) store.Partitions {
	if divided, locked := t.divided[store.UserOf(partition)]; locked {
		return divided
	}
	return t.store.Division().Partitions
}

// nextPosition takes the next position in a slot for a user's log. The user is locked, so positions
// ascend in the order of commits.
func (tx *tx) nextPosition(user string, slot posthaste.Slot) posthaste.Position {
	tx.writes++
	tx.last[user] = tx.last[user].Next(tx.now, slot)
	tx.grown[user] = true
	return tx.last[user]
}

// nextTime returns the time of a user's next event.
func (tx *tx) nextTime(user string) time.Time {
	return max(tx.last[user]+1, posthaste.FirstPosition(tx.now)).Time()
}
