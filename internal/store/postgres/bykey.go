package postgres

import (
	"fmt"
	"strings"
)

// PostgreSQL plans a statement once and keeps to the plan while its tables grow. A join with the
// parameters, or a condition such as id = ANY($2), that was planned while a table was small reads
// all of it later, for each row that is looked for. So each row is looked up by its key, in a
// subquery whose OFFSET 0 forbids all other plans, and known rows are changed by an upsert.

// byKey selects columns of the rows of a table whose keys are in arrays.
func byKey(columns, table string, key ...string) string {
	names, types, conditions := make([]string, len(key)), make([]string, len(key)), make([]string, len(key))
	for i, k := range key {
		name, kind, _ := strings.Cut(k, " ")
		names[i] = "k" + fmt.Sprint(i+1)
		types[i] = fmt.Sprintf("$%d::%s[]", i+1, kind)
		conditions[i] = name + " = w." + names[i]
	}
	return fmt.Sprintf(`SELECT found.* FROM unnest(%s) AS w (%s), LATERAL (SELECT %s FROM posthaste.%s WHERE %s OFFSET 0) AS found`,
		strings.Join(types, ", "), strings.Join(names, ", "), columns, table, strings.Join(conditions, " AND "))
}

// Reads by keys.
var (
	livesByID    = byKey(liveColumns, "live", "user_id text", "id uuid")
	endingsByID  = byKey("user_id, id, state, retried", "ended", "user_id text", "id uuid")
	messagesByID = byKey("user_id, id, record", "messages", "user_id text", "id uuid")
	recordsByKey = byKey("user_id, kind, key, value", "records", "user_id text", "kind smallint", "key bytea")
)

// at selects where rows are, to delete or change them.
func at(table string, key ...string) string {
	return `ctid = ANY(ARRAY(` + byKey("ctid", table, key...) + `))`
}

// laneRow is where the row of a lane w is.
const laneRow = `
	SELECT ctid AS at FROM posthaste.lanes
	WHERE user_id = w.user_id AND kind = w.kind AND lane = w.lane ORDER BY moved DESC LIMIT 1`

// Changes by keys. changeLanes returns whether Claim should look at one of the lanes ($12). It keeps those
// without a message: most get another one, and their rows are then found at once.
var (
	deleteMessages = `DELETE FROM posthaste.messages WHERE ` + at("messages", "user_id text", "id uuid")
	deleteEndings  = `DELETE FROM posthaste.ended WHERE ` + at("ended", "user_id text", "id uuid")
	deleteLives    = `DELETE FROM posthaste.live WHERE ` + at("live", "user_id text", "id uuid")
	deleteRecords  = `DELETE FROM posthaste.records WHERE ` + at("records", "user_id text", "kind smallint", "key bytea")
	deleteTerms    = `DELETE FROM posthaste.terms WHERE ` + at("terms", "user_id text", "kind smallint", "term bigint", "at bigint")
	reopenLanes    = `
		UPDATE posthaste.lanes SET ready = $4 WHERE ctid = ANY(ARRAY(
			SELECT found.at FROM unnest($1::text[], $2::smallint[], $3::bytea[]) AS w (user_id, kind, lane), LATERAL (` + laneRow + `) AS found))`
	changeLanes = `
		WITH change AS MATERIALIZED (
			SELECT w.*, found.at
			FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::integer[], $5::integer[], $6::integer[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::boolean[])
				AS w (user_id, kind, lane, live, in_flight, retrying, ready, served, front, lowest, moved, look)
			LEFT JOIN LATERAL (` + laneRow + `) AS found ON true),
		changed AS (
			UPDATE posthaste.lanes l SET live = l.live + w.live, in_flight = l.in_flight + w.in_flight, retrying = l.retrying + w.retrying,
				ready = CASE WHEN w.look AND l.live + w.live = 0 THEN NULL WHEN w.ready = -1 THEN l.ready ELSE w.ready END,
				served = greatest(l.served, w.served), front = least(coalesce(w.front, l.front), w.lowest), moved = greatest(l.moved, w.moved)
			FROM change w WHERE l.ctid = w.at
			RETURNING w.look AND l.live > 0 AS look),
		made AS (
			INSERT INTO posthaste.lanes (user_id, kind, lane, live, in_flight, retrying, ready, served, front, moved)
			SELECT user_id, kind, lane, live, in_flight, retrying, nullif(ready, -1), served, lowest, moved FROM change WHERE at IS NULL
			RETURNING lane)
		SELECT EXISTS (SELECT FROM changed WHERE look) OR EXISTS (SELECT FROM made)`
	deleteEmptyLanes = `
		DELETE FROM posthaste.lanes WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM posthaste.lanes l WHERE user_id = $1 AND live = 0 AND NOT EXISTS (
				SELECT FROM posthaste.live s WHERE s.user_id = l.user_id AND s.lane = l.lane AND s.begun AND s.kind = 113 AND l.kind = 113 OFFSET 0)
			LIMIT $2))`
	wakeBlockedLanes = `
		WITH gone AS (DELETE FROM posthaste.blocked WHERE ` + at("blocked", "user_id text", "flow_key bytea") + ` RETURNING user_id, kind, lane)
		UPDATE posthaste.lanes SET ready = $3 WHERE ctid = ANY(ARRAY(
			SELECT found.at FROM gone w, LATERAL (` + laneRow + `) AS found))`
)
