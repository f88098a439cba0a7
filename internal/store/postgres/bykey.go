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

// Changes by keys.
var (
	deleteMessages = `DELETE FROM posthaste.messages WHERE ` + at("messages", "user_id text", "id uuid")
	deleteEndings  = `DELETE FROM posthaste.ended WHERE ` + at("ended", "user_id text", "id uuid")
	deleteLives    = `DELETE FROM posthaste.live WHERE ` + at("live", "user_id text", "id uuid")
	deleteRecords  = `DELETE FROM posthaste.records WHERE ` + at("records", "user_id text", "kind smallint", "key bytea")
	deleteTerms    = `DELETE FROM posthaste.terms WHERE ` + at("terms", "user_id text", "kind smallint", "term bigint", "at bigint")
	reopenLanes    = `
		UPDATE posthaste.lanes SET ready = $4 WHERE ctid = ANY(ARRAY(
			SELECT found.at FROM unnest($1::text[], $2::smallint[], $3::bytea[]) AS w (user_id, kind, lane), LATERAL (` + laneRow + `) AS found))`
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
