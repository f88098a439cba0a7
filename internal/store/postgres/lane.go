package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"posthaste"
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

	// If Claim has looked at it: when to look again, nil: when something happens.
	seen   bool
	ready  *int64
	served int64 // the lease that it was served with last; 0: none
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

// keepReady stands for a time to look that does not change.
const keepReady = -1

// readyColumn is when to look at the lane.
func (s laneChange) readyColumn() *int64 {
	switch {
	case s.look:
		return new(int64)
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

// writeLanes writes the changes of lanes.
func writeLanes(batch *pgx.Batch, changes map[laneID]laneChange) {
	if len(changes) == 0 {
		return
	}
	lanes := slices.Collect(maps.Keys(changes))
	batch.Queue(`
		INSERT INTO posthaste.lanes (user_id, kind, lane, live, in_flight, retrying, ready, served)
		SELECT * FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::integer[], $5::integer[], $6::integer[], $7::bigint[], $8::bigint[])
		ON CONFLICT (user_id, kind, lane) DO UPDATE SET live = lanes.live + excluded.live,
			in_flight = lanes.in_flight + excluded.in_flight, retrying = lanes.retrying + excluded.retrying, served = greatest(lanes.served, excluded.served),
			ready = CASE excluded.ready WHEN -1 THEN lanes.ready ELSE excluded.ready END`,
		append(laneKeys(lanes),
			column(lanes, func(l laneID) int32 { return changes[l].live }),
			column(lanes, func(l laneID) int32 { return changes[l].inFlight }),
			column(lanes, func(l laneID) int32 { return changes[l].retrying }),
			column(lanes, func(l laneID) *int64 { return changes[l].readyColumn() }),
			column(lanes, func(l laneID) int64 { return changes[l].served }))...)
}

// deleteEmptyLanes deletes those of the changed lanes that are empty.
func deleteEmptyLanes(batch *pgx.Batch, changes map[laneID]laneChange) {
	left := slices.DeleteFunc(slices.Collect(maps.Keys(changes)), func(l laneID) bool { return !changes[l].look || changes[l].live > 0 })
	if len(left) > 0 {
		batch.Queue(deleteLanes, laneKeys(left)...)
	}
}

// writeReopened has Claim look at the lanes of queues that have changed.
func writeReopened(batch *pgx.Batch, reopened map[laneID]bool, changes map[laneID]laneChange) {
	lanes := slices.DeleteFunc(slices.Collect(maps.Keys(reopened)), func(l laneID) bool { return changes[l].look })
	if len(lanes) > 0 {
		batch.Queue(reopenLanes, laneKeys(lanes)...)
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
	if known := t.keys[name{user, key}]; known != nil {
		known.counted = false
	}
}

// writeFreedKeys has Claim look at the lanes that are blocked by flow-control keys.
func writeFreedKeys(batch *pgx.Batch, freed map[name]bool) {
	if len(freed) > 0 {
		users, keys := nameColumns(slices.Collect(maps.Keys(freed)))
		batch.Queue(wakeBlockedLanes, users, keys)
	}
}
