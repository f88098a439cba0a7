package postgres

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste"
	"posthaste/internal/store"
)

type laneID struct {
	user string
	kind int16 // a posthaste.LaneKind
	name string
}

// longestLane bounds the lane names that are stored as they are, for the sake of index keys.
const longestLane = 200

// hashedLane is the length of the hash that replaces a longer one.
const hashedLane = 16

func laneOf(m *posthaste.Message) laneID { return laneIn(m.User, m.Lane()) }

func laneIn(user string, lane posthaste.Lane) laneID {
	if len(lane.Name) > longestLane {
		lane.Name = string(shortHash(lane.Name))
	}
	return laneID{user, int16(lane.Kind), lane.Name}
}

func queueLane(user, name string) laneID {
	return laneIn(user, posthaste.Lane{Kind: posthaste.LaneQueue, Name: name})
}

// strict reports whether the lane is a queue, whose messages keep slots.
func (l laneID) strict() bool { return posthaste.LaneKind(l.kind) == posthaste.LaneQueue }

// laneChange is how a transaction changes a lane.
type laneChange struct {
	live     int32 // messages that have not ended
	inFlight int32 // of them, claimed
	retrying int32 // of them, waiting for a retry
	look     bool  // something has happened, so that Claim should look at it
	freed    bool  // a slot in the lane of a host is free, which nothing needs that is not due

	waits  bool               // a message waits at a place where none did
	lowest posthaste.Position // the first such place

	// If Claim has looked at it: when to look again, nil: when something happens.
	seen   bool
	ready  *int64
	served int64  // the lease that it was served with last; 0: none
	front  *int64 // before which no message waits; nil: as before
}

// count adds to the claimed messages and to those that wait for a retry.
func (t *userTx) count(l *liveMessage, claimed, retrying int32) {
	change := t.laneChanges[l.lane]
	change.inFlight += claimed
	change.retrying += retrying
	t.laneChanges[l.lane] = change
}

// touch has Claim look at a lane, and changes its count of messages that have not ended.
func (t *userTx) touch(lane laneID, live int32) {
	t.writes++
	sum := t.laneChanges[lane]
	sum.live += live
	sum.look = true
	t.laneChanges[lane] = sum
}

// freedBefore is how long before it is due a message may be waiting for a slot, as Claim has seen it: for its
// pause, and an attempt may have ended that much earlier than its commit is made.
const freedBefore = ceilingPause + callTime

// free notes that a message leaves its slot, or its lane.
func (t *userTx) free(lane laneID, live int32) {
	if !lane.ofHost() {
		t.touch(lane, live)
		return
	}
	t.writes++
	change := t.laneChanges[lane]
	change.live += live
	change.freed = true
	t.laneChanges[lane] = change
}

// waitsAt notes that a message waits at a place in a lane.
func (t *userTx) waitsAt(lane laneID, place posthaste.Position) {
	change := t.laneChanges[lane]
	if !change.waits || place < change.lowest {
		change.waits, change.lowest = true, place
	}
	t.laneChanges[lane] = change
}

// lowestColumn is where the front of the lane is at most.
func (s laneChange) lowestColumn() int64 {
	if s.waits {
		return int64(s.lowest)
	}
	return math.MaxInt64
}

// readyAt is since when a lane is ready in which something happens. A time that is not known is before all.
func readyAt(now time.Time) int64 {
	if now.IsZero() {
		return 0
	}
	return now.UnixMilli()
}

// keepReady stands for a time to look that does not change.
const keepReady = -1

// readyColumn is when to look at the lane.
func (s laneChange) readyColumn(latest time.Time) *int64 {
	switch {
	case s.look, s.freed:
		return new(readyAt(latest))
	case s.seen:
		return s.ready
	}
	keep := int64(keepReady)
	return &keep
}

func laneKeys(lanes []laneID) []any {
	return []any{
		column(lanes, func(l laneID) string { return l.user }),
		column(lanes, func(l laneID) int16 { return l.kind }),
		column(lanes, func(l laneID) []byte { return []byte(l.name) }),
	}
}

// laneColumns are the changes of lanes.
func (t *userTx) laneColumns() []any {
	lanes, changes := slices.Collect(maps.Keys(t.laneChanges)), t.laneChanges
	return append(laneKeys(lanes),
		column(lanes, func(l laneID) int32 { return changes[l].live }),
		column(lanes, func(l laneID) int32 { return changes[l].inFlight }),
		column(lanes, func(l laneID) int32 { return changes[l].retrying }),
		column(lanes, func(l laneID) *int64 { return changes[l].readyColumn(t.latest) }),
		column(lanes, func(l laneID) int64 { return changes[l].served }),
		column(lanes, func(l laneID) *int64 { return changes[l].front }),
		column(lanes, func(l laneID) int64 { return changes[l].lowestColumn() }),
		column(lanes, func(l laneID) int64 { return int64(t.last[l.user]) }),
		column(lanes, func(l laneID) bool { return changes[l].look }),
		column(lanes, func(l laneID) bool { return changes[l].freed && !changes[l].look }),
		column(lanes, func(l laneID) int16 { return shardOf(l.user) }))
}

// writeReopened has Claim look at the lanes of queues that have changed.
func (t *userTx) writeReopened(batch *pgx.Batch) {
	if lanes := slices.Collect(maps.Keys(t.reopened)); len(lanes) > 0 {
		t.ready = true
		batch.Queue(reopenLanes, append(laneKeys(lanes), readyAt(t.latest))...)
	}
}

// wakeBlocked has Claim look at the lanes that wait for capacity under a message's flow-control key.
func (t *userTx) wakeBlocked(l *liveMessage) {
	if l.flowKey != nil {
		t.wakeBlockedOn(l.user, string(l.flowKey))
	}
}

func (t *userTx) wakeBlockedOn(user, key string) {
	t.writes++
	t.freedKeys[name{user, key}] = true
	if known := t.keys[name{t.divisionOf(user).KeyHome(user, key), key}]; known != nil {
		known.counted = false
	}
}

// writeFreedKeys has Claim look at the lanes that are blocked by flow-control keys.
func (t *userTx) writeFreedKeys(batch *pgx.Batch) {
	if len(t.freedKeys) == 0 {
		return
	}
	var here, elsewhere []name
	here, elsewhere, t.freedAway = t.spreadKeys()
	users, keys := nameColumns(here)
	batch.Queue(wakeBlockedLanes, users, keys, readyAt(t.latest)).Exec(func(woken pgconn.CommandTag) error {
		t.ready = t.ready || woken.RowsAffected() > 0
		return nil
	})
	if len(elsewhere) > 0 {
		users, keys := nameColumns(elsewhere)
		collect(batch.Queue(whoWaitsForKeys, users, keys), &t.waitingFor, scanName)
	}
}

// spreadKeys names the keys that have capacity again in all partitions of their users: those that are
// locked, others, and those in other databases.
func (t *userTx) spreadKeys() (here, elsewhere, away []name) {
	spread := map[name]bool{}
	for of := range t.freedKeys {
		for _, partition := range t.divisionOf(of.user).All(store.UserOf(of.user)) {
			spread[name{partition, of.name}] = true
		}
	}
	for of := range spread {
		switch {
		case t.locked(of.user):
			here = append(here, of)
		case t.store.placement.has(of.user):
			elsewhere = append(elsewhere, of)
		default:
			away = append(away, of)
		}
	}
	return here, elsewhere, away
}

const whoWaitsForKeys = `
	SELECT w.user_id, w.flow_key FROM unnest($1::text[], $2::bytea[]) AS w (user_id, flow_key)
	WHERE EXISTS (SELECT FROM posthaste.blocked b WHERE b.user_id = w.user_id AND b.flow_key = w.flow_key OFFSET 0)`

func scanName(r pgx.CollectableRow) (of name, err error) {
	var text []byte
	err = r.Scan(&of.user, &text)
	of.name = string(text)
	return of, err
}

// wakeElsewhere has Claim look at lanes of partitions that were not locked, in a transaction of its own.
// If that fails, Claim looks at them after a while: see flowKey.apart.
func (t *userTx) wakeElsewhere() {
	if len(t.freedAway) > 0 && !t.onlyWakes { // else nothing was freed
		_ = eachOf(t.store.placement.of, t.freedAway, userOfName, func(in *Store, own []name) error {
			in.freedKeys.add(own)
			return nil
		})
	}
	switch {
	case len(t.waitingFor) == 0:
	case t.conn.IsClosed(): // its last answer was lost
		t.store.wakeWaitingAlone(t.waitingFor)
	default:
		t.store.wakeWaiting(context.WithoutCancel(t.ctx), t.conn, t.waitingFor)
	}
}

func userOfName(of name) string { return of.user }

// wakeWaiting has Claim look at lanes that wait for keys.
func (s *Store) wakeWaiting(ctx context.Context, conn *pgx.Conn, keys []name) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	t := newUserTx(ctx, s, conn)
	t.lockTimeout, t.onlyWakes = userLockTimeout, true
	users := slices.Compact(slices.Sorted(slices.Values(column(keys, userOfName))))
	if err := t.begin(users, nil); err != nil {
		_ = t.rollback()
		return
	}
	for _, of := range keys {
		t.wakeBlockedOn(of.user, of.name)
	}
	_ = t.commit(users)
}

// freedKeys are flow-control keys that have capacity again, as changes in other databases have left them.
type freedKeys struct {
	mu   sync.Mutex
	keys map[name]bool
	some chan struct{}
}

func (f *freedKeys) add(keys []name) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range keys {
		f.keys[of] = true
	}
	select {
	case f.some <- struct{}{}:
	default:
	}
}

func (f *freedKeys) take() []name {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := slices.Collect(maps.Keys(f.keys))
	clear(f.keys)
	return keys
}

// wakeForOthers has Claim look at lanes that wait for keys which changes in other databases have freed. Should that
// fail, Claim looks at them after a while.
func (s *Store) wakeForOthers() {
	for {
		select {
		case <-s.closing.Done():
			return
		case <-s.freedKeys.some:
		}
		users, keys := nameColumns(s.freedKeys.take())
		waiting, err := read(s.closing, s, func(ctx context.Context, q querier) ([]name, error) {
			return rows(ctx, q, scanName, whoWaitsForKeys, users, keys)
		})
		if err != nil || len(waiting) == 0 {
			continue
		}
		s.wakeWaitingAlone(waiting)
	}
}

// wakeWaitingAlone is wakeWaiting on a connection of its own.
func (s *Store) wakeWaitingAlone(keys []name) {
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	if conn, err := s.pool.Acquire(ctx); err == nil {
		s.wakeWaiting(ctx, conn.Conn(), keys)
		conn.Release()
	}
}
