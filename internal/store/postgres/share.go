package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// Nodes share the partitions of users, so that they seldom wait for each other's rows: each serves the
// lanes of its own share first, and those of another only when they have been ready for leftFor. That
// is all a share is: a row that is locked decides who changes what, so shares may overlap while nodes
// come and go, and the lanes of a dead node wait no longer than that.
const (
	shards     = posthaste.Slots
	leftFor    = "1000"                 // in milliseconds
	shareEvery = 500 * time.Millisecond // how soon a node notices others that come and go
)

// shardOf returns the shard of a partition. The partitions of a user lie in a circle as its slots do,
// so that each node gets as many, from a place that differs among users.
func shardOf(partition string) int16 {
	return shardAt(store.UserOf(partition), store.FirstSlot(partition))
}

func shardAt(user string, slot posthaste.Slot) int16 {
	return int16((int(posthaste.SlotOf(user)) + int(slot)) % shards)
}

// share is the shards that a node serves first: from the first one to before the end.
type share struct{ first, end int16 }

// shareOf returns the share of the node with that number of nodes before it, of all that are live.
func (p placement) shareOf(before, nodes int) share {
	nodes = max(1, nodes)
	all := p.shards()
	width := int(all.end - all.first)
	return share{all.first + int16(before*width/nodes), all.first + int16((before+1)*width/nodes)}
}

func (s share) has(shard int16) bool { return s.first <= shard && shard < s.end }

// hasAny reports whether something has happened in a lane of the share.
func (s share) hasAny(lanes map[laneID]laneChange) bool {
	for lane, change := range lanes {
		if (change.look || change.freed) && s.has(shardOf(lane.user)) {
			return true
		}
	}
	return false
}

// nextLane returns a query for when to look at a lane again. Its parameters are the first shard of a share,
// the one after its last, since when lanes are ready, and users that do not matter. If a thousand lanes of
// others come before the first one of the share, that may be looked at a second late.
func nextLane(first, end, since, except string) string {
	lanes := `FROM posthaste.lanes WHERE ready >= ` + since + ` AND user_id <> ALL(` + except + `)`
	return `
		SELECT least(
			(SELECT ready FROM (SELECT ready, shard ` + lanes + ` ORDER BY ready LIMIT 1000) AS l WHERE shard >= ` + first + ` AND shard < ` + end + ` LIMIT 1),
			(SELECT min(ready) + ` + leftFor + ` ` + lanes + `))`
}

// renewShare finds out what this node's share is, and in how many partitions users are divided. It keeps what
// it knows if the database does not answer.
func (s *Store) renewShare() {
	ctx, cancel := context.WithTimeout(s.closing, pollTime)
	defer cancel()
	if s.node.Away() || s.learnDivision(ctx) != nil || s.Division().Whole() && !s.placement.several() || s.drains.Load() {
		return
	}
	type place struct{ Before, Nodes int }
	now, err := row(ctx, s.control, pgx.RowToStructByPos[place], `
		SELECT count(*) FILTER (WHERE node < $1), count(*) FROM posthaste.nodes
		WHERE expires_at > clock_timestamp() AND NOT drains`, s.node.Number())
	if err == nil {
		s.share.Store(new(s.placement.shareOf(now.Before, now.Nodes)))
		if s.drains.Load() { // meanwhile
			s.share.Store(new(share{}))
		}
	}
}

// Drain gives up this node's share. From then on it claims what waits too long at others.
func (s *Store) Drain(ctx context.Context) error {
	s.drains.Store(true)
	s.share.Store(new(share{})) // what it still accepts may lie anywhere
	_, err := s.control.Exec(ctx, `UPDATE posthaste.nodes SET drains = true WHERE node = $1`, s.node.Number())
	return errors.Join(err, s.releaseAccepted(ctx))
}

// OwnSlot is a posthaste.OwnSlot of this node.
func (s *Store) OwnSlot(user string, slot posthaste.Slot) posthaste.Slot {
	return ownSlot(user, slot, s.Division().Partitions, s.share.Load().has)
}

// ownSlot returns a slot, or one in a partition on a shard that the node has as its own.
func ownSlot(user string, slot posthaste.Slot, partitions store.Partitions, has func(shard int16) bool) posthaste.Slot {
	width := posthaste.Slots / max(1, int(partitions))
	var own []posthaste.Slot // that partitions begin with
	for first := 0; first < posthaste.Slots; first += width {
		if has(shardAt(user, posthaste.Slot(first))) {
			own = append(own, posthaste.Slot(first))
		}
	}
	home := slot - slot%posthaste.Slot(width)
	if len(own) == 0 || has(shardAt(user, home)) {
		return slot
	}
	return own[int(slot)%len(own)] + slot%posthaste.Slot(width)
}
