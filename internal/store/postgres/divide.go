package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/singleflight"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres/node"
	"posthaste/internal/store/postgres/schema"
	"posthaste/internal/store/record"
)

// The number of partitions grows while nodes use the database. A node that starts with a greater number
// writes it down, and each node notices that within shareEvery: from then on it reads all partitions that may
// have something, in their order (store.Division.Growing). When its reads that began before have ended, it
// says so. When all nodes have, users are divided one after the other, each in one transaction that locks
// it. A change that took the user to be divided as before finds the new number in the user's row, and is
// made again; so is that of a node which was taken for dead meanwhile. Deliveries in flight go on.
//
// What lives is moved: waiting messages with their lanes, records, and active runs' first messages. What has
// ended stays, for its day will go as a whole.

const allDivisions = `SELECT partitions FROM posthaste.divisions ORDER BY partitions`

// knownDivision is how this node takes users to be divided.
type knownDivision struct {
	store.Division
	reads atomic.Int64 // that go on by it
}

// divisions is what this node knows of how users are divided.
type divisions struct {
	now     atomic.Pointer[knownDivision]
	users   sync.Map     // user: the number of its partitions, while others have another one
	learned atomic.Int64 // when it was found out last, since opened
	opened  time.Time

	refreshing singleflight.Group // finds it out for reads

	mu     sync.Mutex
	former []*knownDivision // by which reads may go on
	told   toldDivision
}

// toldDivision is which node has said that it knows of a number.
type toldDivision struct {
	node       int64
	partitions store.Partitions
}

// replace sets what is known, unless somebody else has.
func (d *divisions) replace(old *knownDivision, by store.Division) (done bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if done = d.now.CompareAndSwap(old, &knownDivision{Division: by}); done && old != nil {
		d.former = append(d.former, old)
	}
	return done
}

// toTell returns what is to be said now, if anything is.
func (d *divisions) toTell(node int64) (told toldDivision, now bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.former = slices.DeleteFunc(d.former, func(k *knownDivision) bool { return k.reads.Load() == 0 })
	told = toldDivision{node, d.now.Load().Partitions}
	return told, len(d.former) == 0 && d.told != told
}

func (d *divisions) setTold(told toldDivision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = told
}

// divisionStale is after how long a node that has not found out how users are divided may have been frozen,
// and taken for dead.
const divisionStale = 2 * time.Second

func (d *divisions) stale() bool {
	return time.Since(d.opened)-time.Duration(d.learned.Load()) > divisionStale
}

// Division implements store.Divisible.
func (s *Store) Division() store.Division { return s.divisions.now.Load().Division }

// Reading implements store.Divisible.
func (s *Store) Reading(ctx context.Context) (d store.Division, done func(*error), err error) {
	if s.divisions.stale() {
		if err := s.refreshDivision(ctx); err != nil {
			return d, nil, err
		}
	}
	for began := time.Now(); ; {
		k := s.divisions.now.Load()
		k.reads.Add(1)
		if s.divisions.now.Load() == k {
			return k.Division, func(err *error) { s.endReading(ctx, k, began, err) }, nil
		}
		k.reads.Add(-1) // it may not have been seen
	}
}

// endReading ends a read. Of a node that was frozen meanwhile it may have missed something.
func (s *Store) endReading(ctx context.Context, k *knownDivision, began time.Time, err *error) {
	k.reads.Add(-1)
	if *err != nil || time.Since(began) < divisionStale {
		return
	}
	if s.divisions.stale() {
		*err = s.refreshDivision(ctx)
	}
	if *err == nil && s.Division().Partitions != k.Partitions {
		*err = fmt.Errorf("%w: users were divided while this was read", store.ErrUnavailable)
	}
}

// refreshDivision finds out how users are to be divided, unless somebody else just has.
func (s *Store) refreshDivision(ctx context.Context) error {
	asked := s.divisions.refreshing.DoChan("", func() (any, error) {
		if !s.divisions.stale() {
			return nil, nil
		}
		return read(context.WithoutCancel(ctx), s, func(ctx context.Context, _ querier) (any, error) { return nil, s.learnDivision(ctx) })
	})
	select {
	case answer := <-asked:
		return answer.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// DivisionOf implements store.Divisible.
func (s *Store) DivisionOf(ctx context.Context, user string, reread bool) (store.Division, error) {
	k := s.divisions.now.Load()
	d := k.Division
	if known, ok := s.divisions.users.Load(user); ok && !reread {
		return before(d, known.(store.Partitions)), nil
	}
	if !d.Growing && !reread {
		return d, nil
	}
	found, err := read(ctx, s, func(ctx context.Context, q querier) (*store.Partitions, error) {
		return row(ctx, q, pgx.RowTo[*store.Partitions], `SELECT min(partitions) FROM posthaste.users WHERE `+partitionsOf, user)
	})
	if err != nil {
		return d, err
	}
	if found == nil { // it is new
		return before(d, d.Partitions), nil
	}
	if *found > d.Partitions { // others have divided it: this node is late
		if err := s.learnDivision(ctx); err != nil {
			return d, node.Unavailable(err)
		}
		d = s.Division()
	}
	if *found < d.Partitions && !d.Growing { // a node was too late to notice
		d.Growing = true
		s.divisions.replace(k, d)
	}
	s.divisions.users.Store(user, *found)
	return before(d, *found), nil
}

// divisionOfNew is how a new user is divided: as all nodes know, for those that know of fewer partitions would
// not look in all.
func (s *Store) divisionOfNew(ctx context.Context, q querier) (store.Partitions, error) {
	d := s.Division()
	if len(d.Before) == 0 {
		return d.Partitions, nil
	}
	known, err := row(ctx, q, pgx.RowTo[store.Partitions],
		`SELECT coalesce(min(partitions), $1) FROM posthaste.nodes WHERE expires_at > clock_timestamp()`, d.Partitions)
	if err != nil || known >= d.Partitions {
		return d.Partitions, err
	}
	n, _ := slices.BinarySearch(d.Before, known+1)
	return d.Before[max(0, n-1)], nil
}

// before is the division of a user who is divided into that number of partitions.
func before(d store.Division, partitions store.Partitions) store.Division {
	n, _ := slices.BinarySearch(d.Before, partitions)
	return store.Division{Partitions: partitions, Before: d.Before[:n]}
}

// wantPartitions has users divided into that number of partitions, unless they have more; 0: as they are.
func (s *Store) wantPartitions(ctx context.Context, wanted store.Partitions) error {
	if !s.existing {
		_, err := s.pool.Exec(ctx, `
			INSERT INTO posthaste.divisions (partitions) SELECT $1::integer
			WHERE $2 AND $1 > ALL(SELECT partitions FROM posthaste.divisions) OR NOT EXISTS (SELECT FROM posthaste.divisions)
			ON CONFLICT DO NOTHING`, max(1, int(wanted)), wanted > 0 && !s.placement.several())
		if err != nil {
			return err
		}
	}
	if err := s.learnDivision(ctx); err != nil {
		return fmt.Errorf("in how many partitions users are divided: %w", err)
	}
	if has := s.Division().Partitions; wanted != 0 && wanted < has {
		s.logger.Warn("partitions.kept", "wanted", int(wanted), "partitions", int(has), "consequence", "users stay divided as they are: the number only grows")
	}
	return nil
}

// readDivision reads how users are to be divided.
func readDivision(ctx context.Context, q querier) (d store.Division, err error) {
	all, err := rows(ctx, q, pgx.RowTo[store.Partitions], allDivisions)
	if err == nil && len(all) == 0 {
		err = store.ErrNotFound
	}
	if err == nil {
		last := len(all) - 1
		d.Partitions, d.Before = all[last], all[:last]
	}
	return d, err
}

// learnDivision finds out how users are to be divided.
func (s *Store) learnDivision(ctx context.Context) error {
	k := s.divisions.now.Load()
	began := time.Since(s.divisions.opened)
	d, err := readDivision(ctx, s.control)
	if err != nil {
		return err
	}
	s.divisions.learned.Store(int64(began))
	if d.Growing = len(d.Before) > 0; d.Partitions != k.Partitions && s.divisions.replace(k, d) {
		s.lookAgain()
	}
	return s.tellDivision(ctx)
}

// tellDivision says that this node takes users to be divided as it knows, when nothing is read otherwise any
// more.
func (s *Store) tellDivision(ctx context.Context) error {
	tell, now := s.divisions.toTell(s.node.Number())
	if !now {
		return nil
	}
	s.lookAgain() // who began to wait meanwhile may wait for too little
	_, err := s.control.Exec(ctx, `UPDATE posthaste.nodes SET partitions = greatest(partitions, $2) WHERE node = $1`, tell.node, tell.partitions)
	if err == nil {
		s.divisions.setTold(tell)
	}
	return err
}

// lookAgain has those who wait for logs, and Claim, look where things are now.
func (s *Store) lookAgain() {
	s.followers.wakeAll()
	s.readyLanes.lookAtAll()
	s.signal()
}

// divideEvery is how often a node looks for users to be divided.
const divideEvery = time.Second

// divideAll divides users while some are divided as before. What fails is tried again.
func (s *Store) divideAll() {
	if k := s.divisions.now.Load(); k.Growing && !s.node.Away() {
		if err := s.grow(s.closing, k); err != nil && s.closing.Err() == nil {
			s.logger.Log(s.closing, store.LogLevel(node.Unavailable(err)), "user.undivided", "error", err)
		}
	}
}

// grow divides users, if all nodes know of it.
func (s *Store) grow(ctx context.Context, k *knownDivision) error {
	unknown, err := row(ctx, s.pool, pgx.RowTo[bool],
		`SELECT EXISTS (SELECT FROM posthaste.nodes WHERE expires_at > clock_timestamp() AND partitions < $1)`, k.Partitions)
	if err != nil || unknown {
		return err
	}
	users, err := rows(ctx, s.pool, pgx.RowTo[string],
		`SELECT DISTINCT split_part(user_id, '`+store.PartitionMark+`', 1) FROM posthaste.users WHERE partitions < $1`, k.Partitions)
	if err != nil {
		return err
	}
	for _, user := range users {
		if failed := s.divide(ctx, user, k.Division); failed != nil {
			err = errors.Join(err, fmt.Errorf("user %q: %w", user, failed))
		}
	}
	if d := k.Division; len(users) == 0 {
		d.Growing = false
		if s.divisions.replace(k, d) {
			s.divisions.users.Clear()
		}
	}
	return err
}

// partitionsOf selects the rows of a table that belong to a user $1.
const partitionsOf = `(user_id = $1 OR user_id > $1 || chr(1) AND user_id < $1 || chr(2))`

// divide divides a user, unless another node has done that, or is about to.
func (s *Store) divide(ctx context.Context, user string, d store.Division) error {
	began, v := time.Now(), &dividing{ctx: ctx, Division: d, user: user}
	err := pgx.BeginTxFunc(ctx, s.pool, schema.Committed, func(tx pgx.Tx) error {
		v.tx = tx
		return v.run()
	})
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && said.Code == lockNotAvailable {
		return nil // the next time
	}
	if err == nil && v.to != nil {
		s.logger.Info("user.divided", "user", user, "partitions", int(d.Partitions), "messages", v.moved, "seconds", time.Since(began).Seconds())
		s.lookAgain()
	}
	return err
}

// dividing is the transaction that divides a user.
type dividing struct {
	ctx context.Context
	tx  pgx.Tx
	store.Division
	user  string
	from  []string // its partitions until now
	to    []string // from now on
	moved int64    // messages
}

// divideSettings let statements take what they need, by indexes: statistics may be old.
const divideSettings = `
	SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '2s'; SET LOCAL idle_in_transaction_session_timeout = '5s'; SET LOCAL jit = off;
	SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`

func (v *dividing) run() error {
	if err := v.exec(divideSettings); err != nil {
		return err
	}
	locked, err := rows(v.ctx, v.tx, pgx.RowToStructByPos[dividedUser],
		`SELECT user_id, position, partitions FROM posthaste.users WHERE `+partitionsOf+` ORDER BY user_id FOR UPDATE`, v.user)
	if err != nil || !slices.ContainsFunc(locked, func(u dividedUser) bool { return u.Partitions < v.Partitions }) {
		return err
	}
	var last int64
	for _, u := range locked {
		v.from, last = append(v.from, u.User), max(last, u.Position)
	}
	v.to = v.All(v.user)
	for _, move := range []func() error{v.lives, v.records, v.begins, v.usage} {
		if err := move(); err != nil {
			return err
		}
	}
	if err := v.lanes(last); err != nil {
		return err
	}
	return v.exec(`
		WITH made AS (INSERT INTO posthaste.indexed (user_id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING RETURNING user_id),
		divided AS (UPDATE posthaste.users SET partitions = $2, position = greatest(position, $3) WHERE user_id = ANY($1))
		INSERT INTO posthaste.users (user_id, position, partitions) SELECT user_id, $3, $2 FROM made`, v.to, v.Partitions, last)
}

// dividedUser is the row of a partition.
type dividedUser struct {
	User       string
	Position   int64
	Partitions store.Partitions
}

func (v *dividing) exec(sql string, args ...any) error {
	_, err := v.tx.Exec(v.ctx, sql, args...)
	return err
}

// partitionWith is which partition of the user of a partition has a slot, if each user has that number of partitions: see
// store.Partitions.Of.
func partitionWith(slot, partition, slots string) string {
	return `(SELECT split_part(` + partition + `, chr(1), 1) || CASE WHEN slot < ` + slots + ` THEN '' ELSE chr(1) || slot / ` + slots + ` * ` + slots + ` END
		FROM (SELECT ` + slot + ` AS slot) AS s)`
}

// The slots of messages, and of what has a position as its key.
const (
	slotOfMessage  = `get_byte(uuid_send(id), 15) % 64`
	slotOfPosition = `(at % 64)`
)

// ofMessages are the tables that have a message, and how it ended, which one that keeps a slot has.
var ofMessages = []string{"messages", "ended"}

// lives moves messages that wait, are claimed, or keep a slot.
func (v *dividing) lives() error {
	home := partitionWith(slotOfMessage, "user_id", "$2")
	moved, err := v.tx.Exec(v.ctx, `UPDATE posthaste.live SET user_id = `+home+` WHERE user_id = ANY($1) AND user_id <> `+home, v.from, v.slots())
	if err != nil {
		return err
	}
	v.moved = moved.RowsAffected()
	for _, table := range ofMessages {
		err := v.exec(`
			UPDATE posthaste.`+table+` SET user_id = w.home FROM (
				SELECT l.user_id AS home, found.at FROM posthaste.live l, LATERAL (
					SELECT ctid AS at FROM posthaste.`+table+` m WHERE m.user_id = ANY($1) AND m.id = l.id AND m.user_id <> l.user_id OFFSET 0) AS found
				WHERE l.user_id = ANY($2)) AS w
			WHERE ctid = w.at`, v.from, v.to)
		if err != nil {
			return err
		}
	}
	return nil
}

// slots is how many slots a partition has.
func (v *dividing) slots() int { return posthaste.Slots / int(v.Partitions) }

// recordsMoved is how many records are read at once.
const recordsMoved = 10_000

// records moves records, and what they are found by.
func (v *dividing) records() error {
	for _, from := range v.from {
		last := recordOf{user: from}
		for more := true; more; {
			some, err := rows(v.ctx, v.tx, scanKey, `
				SELECT user_id, kind, key FROM posthaste.records WHERE user_id = $1 AND (kind, key) > ($2, $3) ORDER BY kind, key LIMIT $4`,
				from, int16(last.kind), []byte(last.key), recordsMoved)
			if err != nil {
				return err
			}
			if more = len(some) == recordsMoved; len(some) > 0 {
				last = some[len(some)-1]
			}
			if err := v.move(some); err != nil {
				return err
			}
		}
	}
	home := partitionWith(slotOfPosition, "user_id", "$2::bigint")
	return v.exec(`UPDATE posthaste.terms SET user_id = `+home+` WHERE user_id = ANY($1) AND user_id <> `+home, v.from, v.slots())
}

func scanKey(r pgx.CollectableRow) (of recordOf, err error) {
	var key []byte
	err = r.Scan(&of.user, &of.kind, &key)
	of.key = string(key)
	return of, err
}

// move moves records to where they belong.
func (v *dividing) move(some []recordOf) error {
	home := func(r recordOf) string { return v.Of(v.user, store.RecordKey{Kind: r.kind, Key: []byte(r.key)}.Slot()) }
	some = slices.DeleteFunc(some, func(r recordOf) bool { return home(r) == r.user })
	if len(some) == 0 {
		return nil
	}
	return v.exec(`
		UPDATE posthaste.records SET user_id = w.home FROM (
			SELECT w.home, found.at FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::text[]) AS w (user_id, kind, key, home), LATERAL (
				SELECT ctid AS at FROM posthaste.records r WHERE r.user_id = w.user_id AND r.kind = w.kind AND r.key = w.key OFFSET 0) AS found) AS w
		WHERE ctid = w.at`, append(recordColumns(some), column(some, home))...)
}

// runsRead is how many runs are read at once.
const runsRead = 1000

// begins moves the first messages of active runs, which stay as long as those, and how they ended.
func (v *dividing) begins() error {
	for _, user := range v.to {
		cache := newReadCache()
		runs := &reader{outside{v.tx, v.ctx}, &cache, v.ctx, nil, user}
		var last []byte
		for more := true; more; {
			var ids []posthaste.MessageID
			var err error
			more, err = runs.Scan(store.ItemRun, nil, last, runsRead, func(key, value []byte) error {
				last = bytes.Clone(key)
				if run, err := record.DecodeRunItem(user, value); err == nil && run.Active() { // else check says so
					ids = append(ids, run.FirstID)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := v.moveEnded(ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveEnded moves messages to where they belong, and how they ended.
func (v *dividing) moveEnded(ids []posthaste.MessageID) error {
	homes := column(ids, func(id posthaste.MessageID) string { return v.Of(v.user, id.Slot()) })
	for _, table := range ofMessages {
		err := v.exec(`
			UPDATE posthaste.`+table+` SET user_id = w.home FROM (
				SELECT w.home, found.at FROM unnest($2::uuid[], $3::text[]) AS w (id, home), LATERAL (
					SELECT ctid AS at FROM posthaste.`+table+` m WHERE m.user_id = ANY($1) AND m.id = w.id AND m.user_id <> w.home OFFSET 0) AS found) AS w
			WHERE ctid = w.at`, v.from, uuids(ids), homes)
		if err != nil {
			return err
		}
	}
	return nil
}

// usage counts again what there is of records, each with its size as scopedTx.Count gets it.
func (v *dividing) usage() error {
	kinds := []int16{usageDeadLetters, usageFailedRuns, usageRuns}
	if err := v.exec(`DELETE FROM posthaste.kept WHERE user_id = ANY($1) AND kind = ANY($2)`, v.from, kinds); err != nil {
		return err
	}
	return v.exec(`
		INSERT INTO posthaste.kept (user_id, kind, day, entries, bytes)
		SELECT user_id, CASE kind WHEN $3 THEN $4 ELSE kind END AS of, 0, count(*) FILTER (WHERE kind <> $3), sum(octet_length(value))
		FROM posthaste.records WHERE user_id = ANY($1) AND (kind = ANY($2) OR kind = $3) GROUP BY user_id, of`,
		v.to, kinds, int16(store.ItemRunEntry), usageRuns)
}

// lanes counts again what is in lanes, and has Claim look at all of them.
func (v *dividing) lanes(last int64) error {
	if err := v.exec(`DELETE FROM posthaste.blocked WHERE user_id = ANY($1)`, v.from); err != nil {
		return err
	}
	if err := v.exec(`DELETE FROM posthaste.lanes WHERE user_id = ANY($1)`, v.from); err != nil {
		return err
	}
	return v.exec(`
		INSERT INTO posthaste.lanes (user_id, kind, lane, shard, live, in_flight, retrying, ready, moved)
		SELECT user_id, kind, lane, shard, live, in_flight, retrying, CASE WHEN live > in_flight THEN 0 END, $3
		FROM unnest($1::text[], $2::smallint[]) AS w (u, shard), LATERAL (
			SELECT user_id, kind, lane, count(*) FILTER (WHERE NOT ended) AS live, count(*) FILTER (WHERE lease <> 0) AS in_flight,
				count(*) FILTER (WHERE lease = 0 AND retried > 0 AND NOT ended) AS retrying
			FROM posthaste.live WHERE user_id = w.u GROUP BY user_id, kind, lane) AS l`,
		v.to, column(v.to, shardOf), last)
}
