package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Ping implements store.Backend: it renews the node's session.
func (s *Store) Ping(ctx context.Context) error {
	_, err := read(ctx, s, func(ctx context.Context, _ querier) (struct{}, error) {
		return struct{}{}, s.node.Renew(ctx)
	})
	return err
}

func (s *Store) Stats(ctx context.Context, now time.Time) (store.Stats, error) {
	return read(ctx, s, func(ctx context.Context, q querier) (store.Stats, error) {
		stats, err := row(ctx, q, func(r pgx.CollectableRow) (stats store.Stats, err error) {
			err = r.Scan(&stats.InFlight, &stats.Lanes, &stats.DiskBytes)
			stats.SetAside = s.setAside.count()
			return stats, err
		}, `
			SELECT
				(SELECT count(*) FROM posthaste.live WHERE node <> 0),
				(SELECT count(*) FROM posthaste.lanes WHERE live > 0),
				pg_database_size(current_database())`)
		if err != nil {
			return stats, err
		}
		late, err := rows(ctx, q, pgx.RowToStructByPos[lateLane], lateLanes, now.UnixMilli(), longestLane, hashedLane)
		for _, lane := range late {
			oldest := &stats.OldestDueAt
			if lane.paused() {
				oldest = &stats.OldestPausedDueAt
			}
			if oldest.IsZero() {
				*oldest = time.UnixMilli(lane.Due)
			}
		}
		return stats, err
	})
}

// lateLane is a lane whose first message is overdue.
type lateLane struct {
	Due   int64
	Queue []byte // record of the queue that it is
	Key   []byte // record of the flow-control key of that message
}

// lateLanes are those of all users, most overdue first. A long queue name is hashed in its
// lane: see laneOf.
const lateLanes = `
	SELECT first.due,
		CASE WHEN l.kind = 113 THEN coalesce(
			(SELECT value FROM posthaste.records WHERE user_id = l.user_id AND kind = 2 AND key = l.lane),
			CASE WHEN octet_length(l.lane) = $3 THEN (
				SELECT value FROM posthaste.records WHERE user_id = l.user_id AND kind = 2
					AND octet_length(key) > $2 AND substring(sha256(key) FOR $3) = l.lane) END) END,
		(SELECT value FROM posthaste.records WHERE user_id = l.user_id AND kind = 4 AND key = first.flow_key)
	FROM posthaste.lanes l, LATERAL (
		SELECT due, flow_key FROM posthaste.live w
		WHERE w.user_id = l.user_id AND w.kind = l.kind AND w.lane = l.lane AND NOT begun
		ORDER BY place, id LIMIT 1) AS first
	WHERE first.due < $1 ORDER BY first.due`

// paused reports whether a pause blocks the lane. An unreadable record is not a pause.
func (l *lateLane) paused() bool {
	if l.Queue != nil {
		if queue, err := record.DecodeQueue("", l.Queue); err == nil && queue.Paused {
			return true
		}
	}
	if l.Key != nil {
		if key, err := record.DecodeFlowKey("", l.Key); err == nil && key.Paused {
			return true
		}
	}
	return false
}
