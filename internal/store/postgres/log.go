package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// maxScan bounds how much one call looks at for a page.
const maxScan = 2000

// direction is the order of a page.
func direction(oldestFirst bool) string {
	if oldestFirst {
		return "ASC"
	}
	return "DESC"
}

// beyond returns where a page goes on that ended at a position.
func beyond(p posthaste.Position, oldestFirst bool) posthaste.Position {
	switch {
	case oldestFirst:
		return p + 1
	case p == 0:
		return 0
	default:
		return p - 1
	}
}

// Events implements store.Log. What is committed has lower positions than whatever
// can still be committed, so all of it may be shown.
func (s *Store) Events(ctx context.Context, user string, query store.EventQuery) (page store.EventPage, err error) {
	scan := maxScan
	if plain(&query.Filter) {
		scan = min(scan, query.Limit+1)
	}
	found, err := read(ctx, s, func(ctx context.Context, q querier) ([]store.Entry, error) {
		return readEntries(ctx, q, user, &query, scan)
	})
	for _, e := range found {
		if !query.Filter.Matches(&e.Event, e.Message) {
			continue
		}
		if len(page.Entries) == query.Limit {
			page.More, page.Next = true, e.Position
			return page, nil
		}
		page.Entries = append(page.Entries, e)
	}
	if len(found) == scan {
		page.More, page.Next = true, beyond(found[scan-1].Position, query.OldestFirst)
	}
	return page, err
}

// plain reports whether most events pass a filter, as far as its index goes.
func plain(f *store.EventFilter) bool {
	return len(f.URLs) == 0 && len(f.URLGroups) == 0 && len(f.ScheduleIDs) == 0 && len(f.Queues) == 0 &&
		len(f.Labels) == 0 && len(f.Hosts) == 0 && len(f.Paths) == 0 && len(f.CallerIPs) == 0 &&
		len(f.FlowKeys) == 0 && !f.Runs
}

// readEntries reads events whose states and messages a query asks for.
func readEntries(ctx context.Context, q querier, user string, query *store.EventQuery, scan int) ([]store.Entry, error) {
	states, known := stateCodes(query.Filter.States)
	if !known {
		return nil, nil
	}
	return rows(ctx, q, scanEntry(user), `
		SELECT e.position, e.message_id, e.record, e.response, m.record
		FROM posthaste.events e JOIN posthaste.messages m ON m.user_id = e.user_id AND m.id = e.message_id
		WHERE e.user_id = $1 AND e.position BETWEEN $2 AND $3
			AND (cardinality($4::uuid[]) = 0 OR e.message_id = ANY($4))
			AND (cardinality($5::smallint[]) = 0 OR e.state = ANY($5))
		ORDER BY e.position `+direction(query.OldestFirst)+` LIMIT $6`,
		user, int64(query.Low), int64(query.High), uuids(query.Filter.MessageIDs), states, scan)
}

// stateCodes returns the stored forms of states; known is false if states were given
// and none of them can be stored.
func stateCodes(states []posthaste.State) (codes []int16, known bool) {
	codes = []int16{}
	for code := uint8(1); ; code++ {
		state, err := record.StateOf(code)
		if err != nil {
			return codes, len(codes) > 0 || len(states) == 0
		}
		for _, wanted := range states {
			if wanted == state {
				codes = append(codes, int16(code))
			}
		}
	}
}

func scanEntry(user string) func(pgx.CollectableRow) (store.Entry, error) {
	return func(r pgx.CollectableRow) (e store.Entry, err error) {
		var position int64
		var id [16]byte
		var event, response, envelope []byte
		if err := r.Scan(&position, &id, &event, &response, &envelope); err != nil {
			return e, err
		}
		if e.Event, err = record.DecodeEvent(event); err != nil {
			return e, err
		}
		e.Position, e.MessageID = posthaste.Position(position), id
		if response != nil {
			if e.Response, err = record.DecodeResponse(response); err != nil {
				return e, err
			}
		}
		e.Message, err = record.DecodeMessage(id, user, envelope)
		return e, err
	}
}
