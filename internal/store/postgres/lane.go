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

// laneChange is how a transaction changes a lane's counts, of messages that have not ended and
// of claimed ones, and whether Claim should look at it.
type laneChange struct {
	live, inFlight int32
	ready          bool
}

// leased counts a message as claimed, or not any more.
func (s laneChange) leased(claimed bool) laneChange {
	if claimed {
		s.inFlight++
	} else {
		s.inFlight--
	}
	return s
}

// touch has Claim look at a lane, and changes its count of messages that have not ended.
func (t *userTx) touch(lane laneID, live int32) {
	t.writes++
	sum := t.laneChanges[lane]
	sum.live += live
	sum.ready = true
	t.laneChanges[lane] = sum
}

func laneKeys(lanes []laneID) []any {
	return []any{
		column(lanes, func(l laneID) string { return l.user }),
		column(lanes, func(l laneID) int16 { return l.kind }),
		column(lanes, func(l laneID) []byte { return []byte(l.name) }),
	}
}

// writeLanes writes the changes of lanes, and deletes lanes that are empty.
func writeLanes(batch *pgx.Batch, changes map[laneID]laneChange) {
	if len(changes) == 0 {
		return
	}
	lanes := slices.Collect(maps.Keys(changes))
	batch.Queue(`
		INSERT INTO posthaste.lanes (user_id, kind, lane, live, in_flight, ready)
		SELECT * FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::integer[], $5::integer[], $6::bigint[])
		ON CONFLICT (user_id, kind, lane) DO UPDATE SET live = lanes.live + excluded.live,
			in_flight = lanes.in_flight + excluded.in_flight, ready = coalesce(excluded.ready, lanes.ready)`,
		append(laneKeys(lanes),
			column(lanes, func(l laneID) int32 { return changes[l].live }),
			column(lanes, func(l laneID) int32 { return changes[l].inFlight }),
			column(lanes, func(l laneID) *int64 {
				if !changes[l].ready {
					return nil
				}
				return new(int64)
			}))...)
	left := slices.DeleteFunc(lanes, func(l laneID) bool { return !changes[l].ready || changes[l].live > 0 })
	if len(left) > 0 {
		batch.Queue(`
			DELETE FROM posthaste.lanes l USING unnest($1::text[], $2::smallint[], $3::bytea[]) AS r (user_id, kind, lane)
			WHERE l.user_id = r.user_id AND l.kind = r.kind AND l.lane = r.lane AND l.live = 0 AND NOT EXISTS (
				SELECT FROM posthaste.live s WHERE s.user_id = l.user_id AND s.lane = l.lane AND s.begun AND s.kind = 113 AND l.kind = 113)`,
			laneKeys(left)...)
	}
}

// writeReopened has Claim look at the lanes of queues that have changed.
func writeReopened(batch *pgx.Batch, reopened map[laneID]bool, changes map[laneID]laneChange) {
	lanes := slices.DeleteFunc(slices.Collect(maps.Keys(reopened)), func(l laneID) bool { return changes[l].ready })
	if len(lanes) == 0 {
		return
	}
	batch.Queue(`
		UPDATE posthaste.lanes l SET ready = 0 FROM unnest($1::text[], $2::smallint[], $3::bytea[]) AS r (user_id, kind, lane)
		WHERE l.user_id = r.user_id AND l.kind = r.kind AND l.lane = r.lane`, laneKeys(lanes)...)
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
	if len(freed) == 0 {
		return
	}
	users, keys := nameColumns(slices.Collect(maps.Keys(freed)))
	batch.Queue(`
		UPDATE posthaste.lanes l SET ready = 0, held_by = NULL
		FROM unnest($1::text[], $2::bytea[]) AS r (user_id, key)
		WHERE l.user_id = r.user_id AND l.held_by IS NOT NULL AND r.key = ANY(l.held_by)`, users, keys)
}
