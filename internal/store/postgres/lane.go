package postgres

import (
	"github.com/jackc/pgx/v5"

	"posthaste"
)

// laneID names a lane of a user.
type laneID struct {
	user string
	kind int16 // a posthaste.LaneKind
	name string
}

// longestLane is how long the name of a lane may be that is stored as it is: it is
// part of keys, which have little room.
const longestLane = 200

func laneOf(m *posthaste.Message) laneID {
	lane := m.Lane()
	if len(lane.Name) > longestLane {
		lane.Name = string(hashed(lane.Name))
	}
	return laneID{m.User, int16(lane.Kind), lane.Name}
}

// strict reports whether the lane is a queue, whose messages keep slots.
func (l laneID) strict() bool { return posthaste.LaneKind(l.kind) == posthaste.LaneQueue }

// touch says that something has happened in a lane, so that Claim looks at it, and by how
// much the number of messages in it that have not ended has changed.
func (tx *tx) touch(lane laneID, live int) { tx.own.touched[lane] += live }

// writeTouch writes what has happened in a lane. One without messages goes.
func writeTouch(batch *pgx.Batch, lane laneID, live int) {
	batch.Queue(`
		INSERT INTO posthaste.lanes (user_id, kind, lane, live, ready) VALUES ($1, $2, $3, $4, 0)
		ON CONFLICT (user_id, kind, lane) DO UPDATE SET live = lanes.live + excluded.live, ready = 0`,
		lane.user, lane.kind, []byte(lane.name), live)
	if live > 0 {
		return
	}
	batch.Queue(`
		DELETE FROM posthaste.lanes l
		WHERE user_id = $1 AND kind = $2 AND lane = $3 AND live = 0
			AND NOT EXISTS (SELECT FROM posthaste.live WHERE user_id = $1 AND kind = $2 AND lane = $3 AND begun)`,
		lane.user, lane.kind, []byte(lane.name))
}

// makeRoom tells the lanes that wait for room under a message's flow-control key.
func (tx *tx) makeRoom(l *live) {
	if l.flowKey != nil {
		tx.touchHeldBy(l.user, l.flowKey)
	}
}

func (tx *tx) touchHeldBy(user string, key []byte) {
	tx.exec(`
		UPDATE posthaste.lanes SET ready = 0, held_by = NULL
		WHERE user_id = $1 AND held_by IS NOT NULL AND $2 = ANY(held_by)`, user, key)
}
