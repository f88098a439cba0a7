package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/flow"
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
		heads, err := rows(ctx, q, pgx.RowToStructByPos[laneHeads], headsOfLanes, now.UnixMilli(), longestLane, hashedLane, posthaste.Slots/max(1, int(s.Division().Partitions)))
		s.readKeysOf(ctx, heads)
		stats.Waiting = map[store.Waiting]int{}
		for i := range heads {
			heads[i].addTo(&stats, now)
		}
		return stats, err
	})
}

// laneHeads are lanes whose next messages are held by the same. A queue is alone.
type laneHeads struct {
	User           string // of the queue
	Lane           []byte // of the queue
	Name           []byte // of the queue, if it has a record
	Queue          []byte // its record
	Slots          int    // that it uses
	Key            []byte // record of the flow-control key of the next messages, if there is one here
	KeyUser        string // who has the key otherwise
	KeyName        []byte
	Blocked        bool   // a lane waits for the key
	Due            *int64 // the next messages, the first of them; nil: there is none
	Created, Retry int    // how many wait
}

// homeOfKey is the partition that has the flow-control key of a message, of $4 slots: see
// store.Partitions.KeyHome.
var homeOfKey = partitionWith(`get_byte(sha256('f'::bytea || first.flow_key), 0) % 64`, "l.user_id", "$4")

// headsOfLanes look at the first message of each lane. A long queue name is hashed in its lane: see
// laneOf.
var headsOfLanes = `
	SELECT CASE WHEN l.kind = 113 THEN l.user_id ELSE '' END AS "user", CASE WHEN l.kind = 113 THEN l.lane END AS lane,
		queue.key, queue.value, coalesce(slots.used, 0)::integer, flow.value,
		CASE WHEN first.flow_key IS NOT NULL AND flow.value IS NULL THEN split_part(l.user_id, '` + store.PartitionMark + `', 1) ELSE '' END,
		CASE WHEN flow.value IS NULL THEN first.flow_key END,
		first.flow_key IS NOT NULL AND EXISTS (
			SELECT FROM posthaste.blocked b
			WHERE b.user_id = l.user_id AND b.flow_key = first.flow_key AND b.kind = l.kind AND b.lane = l.lane) AS blocked,
		min(first.due), sum(l.live - l.in_flight - l.retrying)::integer, sum(l.retrying)::integer
	FROM posthaste.lanes l
	LEFT JOIN LATERAL (
		SELECT due, flow_key FROM posthaste.live w
		WHERE w.user_id = l.user_id AND w.kind = l.kind AND w.lane = l.lane AND NOT begun
		ORDER BY place, id LIMIT 1) AS first ON true
	LEFT JOIN LATERAL (
		SELECT value FROM posthaste.records WHERE user_id = ` + homeOfKey + ` AND kind = 4 AND key = first.flow_key OFFSET 0) AS flow ON true
	LEFT JOIN LATERAL (
		SELECT count(*) AS used FROM posthaste.live s WHERE s.user_id = l.user_id AND s.lane = l.lane AND s.begun AND s.kind = 113 OFFSET 0
	) AS slots ON l.kind = 113
	LEFT JOIN LATERAL (
		SELECT key, value FROM posthaste.records r WHERE r.user_id = l.user_id AND r.kind = 2 AND r.key = l.lane
		UNION ALL
		SELECT key, value FROM posthaste.records r WHERE r.user_id = l.user_id AND r.kind = 2 AND octet_length(l.lane) = $3
			AND octet_length(r.key) > $2 AND substring(sha256(r.key) FOR $3) = l.lane
		LIMIT 1) AS queue ON l.kind = 113
	WHERE l.live > 0
	GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, first.due > $1`

// readKeysOf reads the flow-control keys that are in other databases, but for those that are away.
func (s *Store) readKeysOf(ctx context.Context, heads []laneHeads) {
	if !s.placement.several() {
		return
	}
	home := func(h laneHeads) recordOf {
		return flowKeyOf(s.Division().KeyHome(h.KeyUser, string(h.KeyName)), string(h.KeyName))
	}
	others := slices.DeleteFunc(slices.Clone(heads), func(h laneHeads) bool { return h.KeyName == nil })
	cache := newReadCache()
	_ = eachOf(s.placement.of, column(others, home), func(of recordOf) string { return of.user }, func(in *Store, own []recordOf) error {
		_, err := read(ctx, in, func(ctx context.Context, _ querier) (struct{}, error) {
			return struct{}{}, outside{in.pool, ctx}.ask(func(batch *pgx.Batch) { cache.queueRecords(batch, own) })
		})
		return err
	})
	for i := range heads {
		if key := cache.records[home(heads[i])]; heads[i].KeyName != nil && key != nil {
			heads[i].Key = key.value
		}
	}
}

// addTo counts them. An unreadable record is not a pause.
func (h *laneHeads) addTo(stats *store.Stats, now time.Time) {
	head := store.LaneHead{Queue: h.Lane != nil}
	if head.Queue {
		parallelism := posthaste.DefaultParallelism
		if queue, err := record.DecodeQueue("", h.Queue); h.Queue != nil && err == nil {
			head.QueuePaused, parallelism = queue.Paused, queue.Parallelism
		}
		head.QueueFull = h.Slots >= parallelism
	}
	if h.Key == nil {
		head.KeyFull = h.Blocked // in whichever way
	} else if key, err := record.DecodeFlowKey("", h.Key); err == nil {
		_, _, admits := flow.Admit(key, 0, now)
		head.KeyPaused, head.Rate, head.KeyFull = key.Paused, !key.Paused && !admits, h.Blocked
	}
	if h.Due != nil {
		head.DueAt = time.UnixMilli(*h.Due)
	}
	stats.AddWaiting(&head, now, h.Created, h.Retry)
	name := h.Name
	if name == nil {
		name = h.Lane
	}
	stats.AddHead(&head, now, h.User, string(name))
}
