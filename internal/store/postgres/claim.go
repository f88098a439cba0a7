package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/record"
)

// Claim implements store.Worker. It writes nothing, and holds nobody up, while
// nothing is due.
func (s *Store) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done(&err)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := s.reap(ctx, now); err != nil {
		return nil, time.Time{}, err
	}
	if err := s.giveBackUnsure(ctx, now); err != nil {
		return nil, time.Time{}, err
	}
	users, err := rows(ctx, s.pool, pgx.RowTo[string], `
		SELECT DISTINCT user_id FROM (
			SELECT user_id FROM posthaste.lanes WHERE ready <= $1 ORDER BY served LIMIT $2) AS first`,
		now.UnixMilli(), limit)
	if err != nil {
		return nil, time.Time{}, err
	}
	if len(users) == 0 {
		next, err = readNext(ctx, s.pool)
		return nil, next, err
	}
	err = s.change(ctx, now, users, func(tx *tx) (err error) {
		claims, next, err = tx.claim(users, limit)
		return err
	})
	switch {
	case errors.Is(err, errSilent):
		return nil, now, s.renew(ctx)
	case errors.Is(err, errUnknown):
		s.unsure.add(claims)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return claims, next, nil
}

// readNext returns when to look at a lane again, the zero time if at none.
func readNext(ctx context.Context, q querier) (time.Time, error) {
	ready, err := row(ctx, q, pgx.RowTo[*int64], `SELECT min(ready) FROM posthaste.lanes`)
	return fromMilli(ready), err
}

// claim serves lanes of the users, one message of each in turn.
func (tx *tx) claim(users []string, limit int) ([]store.Claim, time.Time, error) {
	lanes, err := tx.readyLanes(users, limit)
	if err != nil {
		return nil, time.Time{}, err
	}
	if err := tx.loadLanes(lanes, limit); err != nil {
		return nil, time.Time{}, err
	}
	picked := serveInTurn(lanes, tx.now, limit)
	claims, err := tx.lease(picked)
	if err != nil {
		return nil, time.Time{}, err
	}
	if err := tx.saveLanes(lanes); err != nil {
		return nil, time.Time{}, err
	}
	next, err := readNext(tx.ctx, tx)
	return claims, next, err
}

// readyLanes returns the lanes to look at, those first that were served longest ago.
func (tx *tx) readyLanes(users []string, limit int) ([]*openLane, error) {
	return rows(tx.ctx, tx, func(r pgx.CollectableRow) (*openLane, error) {
		lane := &openLane{}
		var name []byte
		err := r.Scan(&lane.id.user, &lane.id.kind, &name, &lane.inFlight)
		lane.id.name = string(name)
		return lane, err
	}, `
		SELECT user_id, kind, lane, (
			SELECT count(*) FROM posthaste.live b
			WHERE b.user_id = l.user_id AND b.kind = l.kind AND b.lane = l.lane AND b.begun)
		FROM posthaste.lanes l
		WHERE ready <= $1 AND user_id = ANY($2) ORDER BY served, user_id, kind, lane LIMIT $3`,
		tx.now.UnixMilli(), users, limit)
}

// spare is how many messages of a lane are read beyond its equal share.
const spare = 8

// loadLanes reads what the lanes need to choose: the first messages that wait, and in
// queues those that have begun.
func (tx *tx) loadLanes(lanes []*openLane, limit int) error {
	byID := make(map[laneID]*openLane, len(lanes))
	users, kinds, names := make([]string, len(lanes)), make([]int16, len(lanes)), make([][]byte, len(lanes))
	for i, lane := range lanes {
		byID[lane.id] = lane
		users[i], kinds[i], names[i] = lane.id.user, lane.id.kind, []byte(lane.id.name)
	}
	share := limit/max(1, len(lanes)) + spare
	found, err := rows(tx.ctx, tx, scanLive, `
		SELECT w.* FROM unnest($1::text[], $2::smallint[], $3::bytea[]) AS l (user_id, kind, lane), LATERAL (
			SELECT `+liveColumns+` FROM posthaste.live w
			WHERE w.user_id = l.user_id AND w.kind = l.kind AND w.lane = l.lane AND NOT w.begun
			ORDER BY w.place, w.id LIMIT $4) AS w
		UNION ALL
		SELECT b.* FROM unnest($1::text[], $2::smallint[], $3::bytea[]) AS l (user_id, kind, lane), LATERAL (
			SELECT `+liveColumns+` FROM posthaste.live b
			WHERE b.user_id = l.user_id AND b.kind = l.kind AND b.lane = l.lane AND b.begun) AS b
		WHERE l.kind = $5`,
		users, kinds, names, share, int16(posthaste.LaneQueue))
	if err != nil {
		return err
	}
	for _, l := range found {
		byID[l.lane].add(l)
	}
	for _, lane := range lanes {
		lane.arrange(share)
		if err := tx.loadLimits(lane); err != nil {
			return err
		}
	}
	return nil
}

// loadLimits reads the queue of a lane and the flow-control keys its messages name.
func (tx *tx) loadLimits(lane *openLane) error {
	if lane.id.strict() {
		name, err := tx.queueName(lane)
		if err != nil {
			return err
		}
		queue, err := queues.get(tx.ctx, tx, lane.id.user, name)
		if errors.Is(err, store.ErrNotFound) {
			queue, err = newQueue(name, tx.now), nil // it was deleted
		}
		if err != nil {
			return err
		}
		lane.queue = queue
	}
	lane.keys = map[string]*flowKey{}
	for _, l := range slices.Concat(lane.begun, lane.waiting) {
		if l.flowKey == nil || lane.keys[string(l.flowKey)] != nil {
			continue
		}
		key, err := tx.limiter(lane.id.user, string(l.flowKey))
		if err != nil {
			return err
		}
		lane.keys[string(l.flowKey)] = key
	}
	return nil
}

// queueName returns the name of a queue, which its lane need not have.
func (tx *tx) queueName(lane *openLane) (string, error) {
	if len(lane.id.name) < longestLane || len(lane.begun)+len(lane.waiting) == 0 {
		return lane.id.name, nil
	}
	m, err := tx.message(lane.id.user, slices.Concat(lane.begun, lane.waiting)[0].id)
	if err != nil {
		return "", err
	}
	return m.Queue, nil
}

// limiter returns a flow-control key that knows what is in flight under it.
func (tx *tx) limiter(user, name string) (*flowKey, error) {
	key, err := tx.flowKey(user, name)
	if err != nil || key.counted {
		return key, err
	}
	key.counted = true
	key.inFlight, err = row(tx.ctx, tx, pgx.RowTo[int], `
		SELECT count(*)::integer FROM posthaste.live WHERE user_id = $1 AND flow_key = $2 AND lease <> 0`, user, []byte(name))
	return key, err
}

// lease gives the picked messages to this node and logs them as ACTIVE. Messages
// whose cancellation was asked for are never among them: it was granted when their
// lease ended.
func (tx *tx) lease(picked []*live) ([]store.Claim, error) {
	if len(picked) == 0 {
		return nil, nil
	}
	if err := tx.checkAlive(); err != nil {
		return nil, err
	}
	tokens, err := rows(tx.ctx, tx, pgx.RowTo[int64], `SELECT nextval('posthaste.tokens') FROM generate_series(1, $1)`, len(picked))
	if err != nil {
		return nil, err
	}
	messages, err := tx.messages(picked)
	if err != nil {
		return nil, err
	}
	claims := make([]store.Claim, len(picked))
	for i, l := range picked {
		l.lease = tokens[i]
		tx.saveLive(l)
		tx.event(l.user, posthaste.Event{MessageID: l.id, State: posthaste.StateActive})
		claims[i] = store.Claim{Message: messages[messageOf{l.user, l.id}], Retried: l.retried, Lease: uint64(l.lease)}
	}
	return claims, nil
}

type messageOf struct {
	user string
	id   posthaste.MessageID
}

// messages reads the envelopes of live messages.
func (tx *tx) messages(of []*live) (map[messageOf]*posthaste.Message, error) {
	users, ids := make([]string, len(of)), make([]posthaste.MessageID, len(of))
	for i, l := range of {
		users[i], ids[i] = l.user, l.id
	}
	found, err := rows(tx.ctx, tx, scanMessage, `
		SELECT user_id, id, record FROM unnest($1::text[], $2::uuid[]) AS wanted (user_id, id)
		JOIN posthaste.messages USING (user_id, id)`, users, uuids(ids))
	all := make(map[messageOf]*posthaste.Message, len(found))
	for _, m := range found {
		all[messageOf{m.User, m.ID}] = m
	}
	if err == nil && len(all) != len(of) {
		err = errors.New("claim: an envelope is missing")
	}
	return all, err
}

// scanMessage reads user, id and record.
func scanMessage(r pgx.CollectableRow) (*posthaste.Message, error) {
	var user string
	var id [16]byte
	var data []byte
	if err := r.Scan(&user, &id, &data); err != nil {
		return nil, err
	}
	return record.DecodeMessage(id, user, data)
}

// saveLanes writes when to look at lanes again, and in which order they were served.
func (tx *tx) saveLanes(lanes []*openLane) error {
	for _, lane := range lanes {
		tx.exec(`
			UPDATE posthaste.lanes SET ready = $4, held_by = $5,
				served = CASE WHEN $6 THEN nextval('posthaste.tokens') ELSE served END
			WHERE user_id = $1 AND kind = $2 AND lane = $3`,
			lane.id.user, lane.id.kind, []byte(lane.id.name), milli(lane.ready), lane.heldBy, lane.servedAs > 0)
	}
	return tx.flush()
}
