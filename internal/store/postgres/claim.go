package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres/node"
	"posthaste/internal/store/record"
)

// Claim implements store.Backend. It writes nothing while nothing is due.
func (s *Store) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done(&err)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if s.held.anyInDoubt() {
		s.releasing.run(ctx, s, func(ctx context.Context) error { return s.releaseInDoubt(ctx, now) })
	}
	if claims, err := s.late.take(limit); len(claims) > 0 || err != nil {
		s.accepted.setFree(0)
		return s.withoutExpired(claims), now, err
	}
	claims = s.withoutExpired(s.accepted.take(limit))
	free := limit - len(claims)
	if next, known := s.accepted.rest(now); known || free == 0 {
		s.accepted.setFree(free)
		return claims, next, nil
	}
	found, next, complete, err := s.claimDue(ctx, now, free)
	claims = append(claims, found...)
	if err == nil && complete && len(found) < free {
		s.accepted.looked(now, next)
		s.accepted.setFree(free - len(found))
	} else {
		s.accepted.look.Store(true)
	}
	return claims, next, err
}

// claimDue claims messages that are due, and reports whether nobody was left out.
func (s *Store) claimDue(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, complete bool, err error) {
	busy, _ := s.late.busy()
	busy = append(busy, s.overQuota(limit)...)
	s.accepted.look.Store(false)
	seen, err := s.findDue(ctx, now, limit, busy)
	if err == nil && len(seen.Dead) > 0 && s.reaping.run(ctx, s, func(ctx context.Context) error { return s.reapDeadNodes(ctx, now) }) {
		seen, err = s.findDue(ctx, now, limit, busy)
	}
	if err != nil || len(seen.Users) == 0 {
		return nil, fromMilli(seen.Next), len(busy) == 0, err
	}
	claims, next, err = s.claimForUsers(ctx, now, seen.Users, limit)
	if errors.Is(err, node.ErrExpired) {
		return s.withoutExpired(claims), now, false, s.node.Renew(ctx)
	}
	return s.withoutExpired(claims), next, len(busy) == 0 && !s.late.any(), err
}

// withoutExpired drops claims whose lease this node has lost meanwhile, as after a pause of
// the process.
func (s *Store) withoutExpired(claims []store.Claim) []store.Claim {
	s.node.Session().Alive() // or it expires now
	return slices.DeleteFunc(claims, func(claim store.Claim) bool {
		lost := claim.Held.Err() != nil
		if lost {
			s.held.remove(claim)
		}
		return lost
	})
}

// claimForUsers claims in one transaction from users whose rows are not locked, then from each
// other user alone, also if that transaction failed: it is unknown whose message was the
// reason. Claims that were made are returned without waiting for the others.
func (s *Store) claimForUsers(ctx context.Context, now time.Time, users []string, limit int) ([]store.Claim, time.Time, error) {
	if len(users) == 1 {
		return s.claimPerUser(ctx, now, users, limit, s.patience)
	}
	c := s.newClaiming(users, limit)
	err := s.claimUnlocked(ctx, now, c)
	if node.IsUnavailable(err) || errors.Is(err, node.ErrExpired) {
		return nil, time.Time{}, err
	}
	if err != nil {
		c.users = nil
	}
	var unreadable unreadableError
	errors.As(err, &unreadable)
	free := limit - len(c.claims)
	others := slices.DeleteFunc(slices.Clone(users), func(user string) bool {
		return slices.Contains(c.users, user) && len(c.elsewhere(user)) == 0
	})
	if len(others) == 0 || free == 0 {
		return c.claims, fromMilli(c.next), nil
	}
	patience := s.patience
	if len(c.claims) > 0 {
		patience = 0
	}
	more, next, err := s.claimPerUser(ctx, now, others, free, patience)
	if unreadable != nil {
		err = errors.Join(unreadable, err)
	}
	return append(c.claims, more...), next, err
}

// claimUnlocked claims in one transaction from users whose rows are not locked. c.users says
// which they were, unless it failed.
func (s *Store) claimUnlocked(ctx context.Context, now time.Time, c *claiming) error {
	users := c.users
	c.users = nil
	_, err := s.changeLocked(ctx, now, 0, users, func(tx *tx, locked []string) error {
		c.users = locked
		return c.run(tx)
	})
	return s.finishClaim(c, err)
}

// claimForUser claims from one user and waits for the row.
func (s *Store) claimForUser(ctx context.Context, now time.Time, user string, limit int) ([]store.Claim, time.Time, error) {
	c := s.newClaiming([]string{user}, limit)
	c.countsAway = s.placement.several() && s.placement.of.Room() == nil
	err := s.finishClaim(c, s.change(ctx, now, c.users, prefetch{}, c.run))
	if c.countsAway && node.IsUnavailable(err) && !s.node.Away() { // another database is away
		c = s.newClaiming([]string{user}, limit)
		err = s.finishClaim(c, s.change(ctx, now, c.users, prefetch{}, c.run))
	}
	claims, next := c.claims, c.next
	if others := c.elsewhere(user); err == nil && len(others) > 0 && len(claims) < limit {
		c = s.newClaiming(c.users, limit-len(claims))
		if err = s.finishClaim(c, s.claimWith(ctx, now, c, user, others)); s.placement.several() && node.IsUnavailable(err) && !s.node.Away() {
			c.next, err = new(now.Add(ceilingPause).UnixMilli()), nil // another database is away
		}
		claims, next = append(claims, c.claims...), c.next
	}
	return claims, fromMilli(next), err
}

// finishClaim handles a failed claim: its messages are not held, or in doubt, and unreadable
// ones are set aside.
func (s *Store) finishClaim(c *claiming, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, node.ErrInDoubt) {
		s.held.doubt(c.claims)
	}
	s.held.remove(c.claims...)
	if unreadable, ok := errors.AsType[unreadableError](err); ok {
		s.setAside.add(unreadable, s.logger)
	}
	c.users, c.lanes, c.claims, c.next = nil, nil, nil, nil
	return err
}

// dueUsers is what Claim must know before it locks users.
type dueUsers struct {
	Dead  []int64  // dead nodes with leases
	Users []string // with ready lanes, least recently served first
	Next  *int64   // when the next lane is ready
	First *int64   // the same, of all users
}

// findDue looks at all users but the busy ones.
func (s *Store) findDue(ctx context.Context, now time.Time, limit int, busy []string) (dueUsers, error) {
	var found []dueUsers
	since, began := s.readyLanes.from(now), time.Now()
	err := outside{s.pool, ctx}.ask(func(batch *pgx.Batch) {
		batch.Queue(txSettings)
		share := s.share.Load()
		collect(batch.Queue(dueOfUsers, now.UnixMilli(), limit, busy, since, share.first, share.end), &found, pgx.RowToStructByPos[dueUsers])
	})
	if err != nil {
		return dueUsers{}, err
	}
	s.readyLanes.looked(since, time.Since(began), found[0].First)
	return found[0], nil
}

// dueOfUsers selects dueUsers, for a share from $5 to before $6. OFFSET 0 keeps PostgreSQL from reading
// lanes that are not ready.
var dueOfUsers = `
	SELECT
		` + deadNodes + `,
		ARRAY(SELECT user_id FROM (
			SELECT user_id, served FROM posthaste.lanes
			WHERE ready BETWEEN $4 AND $1 AND (shard >= $5 AND shard < $6 OR ready <= $1 - ` + leftFor + `) AND user_id <> ALL($3) OFFSET 0) AS l
			GROUP BY user_id ORDER BY min(served), user_id LIMIT $2),
		(` + nextLane("$5", "$6", "$4", "$3") + `),
		(SELECT min(ready) FROM posthaste.lanes WHERE ready >= $4)`

// nextOfShare selects when to look at a lane again.
var nextOfShare = nextLane("$1", "$2", "$3", "$4::text[]")

// claiming is one claim in a transaction of some users.
type claiming struct {
	*tx
	users      []string
	limit      int
	overQuota  []string // users that the next time to look does not depend on
	session    *node.Session
	lanes      []*openLane
	cancelled  []*liveMessage // that wait to be cancelled, and are claimed for that
	claims     []store.Claim
	countsAway bool           // attempts under flow-control keys in other databases, so messages may start under those
	away       map[string]*tx // of those in other databases
	readAll    bool           // nothing that waits in the lanes was left out
	next       *int64         // when to look at a lane again; known after the commit
}

func (s *Store) newClaiming(users []string, limit int) *claiming {
	return &claiming{users: users, limit: limit, overQuota: s.overQuota(limit)}
}

// run serves lanes, one message of each in turn.
func (c *claiming) run(tx *tx) error {
	tx.store.held.remove(c.claims...) // of a failed try
	c.tx, c.session, c.lanes, c.cancelled, c.claims, c.next = tx, tx.store.node.Session(), nil, nil, nil, nil
	if err := c.read(); err != nil {
		return err
	}
	if err := c.readLimits(); err != nil {
		return err
	}
	c.stampKeys()
	c.writes++ // picked rows have changed
	picked := serveInTurn(c.lanes, c.store.held.inFlight(), c.now, c.limit-len(c.cancelled))
	if err := c.lease(append(picked, c.cancelled...)); err != nil {
		return err
	}
	c.saveKeysAway()
	c.saveLanes()
	share := c.store.share.Load()
	c.queuedLast.Queue(nextOfShare, share.first, share.end, c.store.readyLanes.known(), c.overQuota).QueryRow(func(r pgx.Row) error { return r.Scan(&c.next) })
	return nil
}

// stampKeys gives the flow-control keys the time that the attempts' events will have.
func (c *claiming) stampKeys() {
	for _, lane := range c.lanes {
		for _, key := range lane.keys {
			if at := c.nextTime(lane.id.user); at.After(key.loggedAt) {
				key.loggedAt = at
			}
		}
	}
}

// readAhead is how many due messages of a lane are read beyond its equal share.
const readAhead = 8

// messagesInLanes are the lanes to look at, one of each user in turn, least recently served first, with
// their messages, or alone if there is none: the first waiting ones that are due, the next one, and in
// queues all that have begun. share is how many due ones of each lane are read: no more than its
// ceiling ($5) may let start. After them, without a lane, come due messages of any lane that wait to be
// cancelled. Each message has the size of its delivery, its record unless that is large, and whether the node ($8) is alive.
//
// Messages that are set aside are left out. Order follows the due time, so what comes after the present
// ($7) is not due. In a queue it may be, if the position of its acceptance was ahead of the clock, but
// nothing overtakes the first of those. The comparison with user_id || ” keeps PostgreSQL from reading
// all lanes of a user, by the primary key.
const messagesInLanes = `
	WITH ready AS MATERIALIZED (
		SELECT user_id, kind, lane, in_flight, front, least($3 / count(*) OVER () + $4, greatest($5 - in_flight, 0) + 1) AS share FROM (
			SELECT user_id, kind, lane, in_flight, front, nth, served FROM (
				SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY served, kind, lane) AS nth
				FROM (SELECT * FROM posthaste.lanes WHERE ready BETWEEN $9 AND $1 AND user_id || '' = ANY($2) OFFSET 0) AS l) AS l
			ORDER BY nth, served, user_id, kind, lane LIMIT $3) AS l
		ORDER BY nth, served, user_id, kind, lane),
	found AS (
		SELECT l.user_id AS of, l.kind AS lane_kind, l.lane AS lane_name, l.in_flight, l.front, l.share, w.* FROM ready l LEFT JOIN LATERAL (
			(SELECT ` + liveColumns + ` FROM posthaste.live w
			WHERE w.user_id = l.user_id AND w.kind = l.kind AND w.lane = l.lane AND NOT w.begun AND w.id <> ALL($6) AND w.place BETWEEN l.front AND $7
			ORDER BY w.place, w.id LIMIT l.share)
			UNION ALL
			(SELECT ` + liveColumns + ` FROM posthaste.live w
			WHERE w.user_id = l.user_id AND w.kind = l.kind AND w.lane = l.lane AND NOT w.begun AND w.id <> ALL($6) AND w.place > $7
			ORDER BY w.place, w.id LIMIT 1)
			UNION ALL
			(SELECT ` + liveColumns + ` FROM posthaste.live w
			WHERE l.kind = 113 AND w.user_id = l.user_id AND w.kind = 113 AND w.lane = l.lane AND w.begun AND w.id <> ALL($6) OFFSET 0)) AS w ON true
		UNION ALL
		SELECT NULL, NULL, NULL, NULL, NULL, NULL, c.* FROM (
			SELECT ` + liveColumns + ` FROM posthaste.live
			WHERE user_id = ANY($2) AND cancel_requested AND lease = 0 AND NOT ended AND due <= $1 AND id <> ALL($6) LIMIT $3) AS c)
	SELECT found.*, size, record, coalesce((SELECT expires_at > clock_timestamp() FROM posthaste.nodes WHERE node = $8), false)
	FROM found LEFT JOIN LATERAL (
		SELECT octet_length(record) + list_bytes AS size, CASE WHEN octet_length(record) <= 4096 THEN record END AS record
		FROM posthaste.messages m WHERE m.user_id = found.user_id AND m.id = found.id OFFSET 0) AS m ON true`

// read reads lanes and their messages, and whether this node is alive.
func (c *claiming) read() error {
	present := posthaste.FirstPosition(c.now.Add(time.Millisecond)) - 1
	byID, alive := map[laneID]*openLane{}, true // or there is nothing to claim
	setAside := c.store.setAside.ids()
	c.readAll = len(setAside) == 0
	var found []*liveMessage
	err := c.ask(func(batch *pgx.Batch) {
		c.writeTotals(batch, nil) // so that the claim sees what happened before it in this transaction
		collect(batch.Queue(messagesInLanes, c.now.UnixMilli(), c.users, c.limit, readAhead, flow.Ceiling(flow.UserQuota(c.limit, 0)), setAside, int64(present), c.session.Number, c.store.readyLanes.known()),
			&found, func(r pgx.CollectableRow) (*liveMessage, error) { return c.scanWaiting(r, byID, &alive) })
	})
	switch {
	case err != nil:
		return err
	case !alive || !c.session.Alive():
		return node.ErrExpired
	}
	for _, l := range found {
		if l != nil {
			c.place(l, byID[l.lane])
		}
	}
	for _, lane := range c.lanes {
		lane.arrange(present)
	}
	return nil
}

// scanWaiting reads a row of messagesInLanes. It adds a lane when it comes first, with the changes of
// this transaction, and returns the message, nil if there is none.
func (c *claiming) scanWaiting(r pgx.CollectableRow, byID map[laneID]*openLane, alive *bool) (*liveMessage, error) {
	const columnsOfLane = 6
	var user *string
	var kind *int16
	var name, data []byte
	var inFlight, share, size *int
	var front *int64
	lane := []any{&user, &kind, &name, &inFlight, &front, &share}
	var l *liveMessage
	var err error
	if r.RawValues()[columnsOfLane] == nil {
		err = r.Scan(append(lane, make([]any, len(r.RawValues())-columnsOfLane)...)...)
	} else {
		l, err = c.scanLiveAmong(r, lane, &size, &data, alive)
	}
	if err != nil {
		return nil, err
	}
	if size != nil {
		l.size, l.record = *size, data
	}
	if user == nil {
		return l, nil
	}
	id := laneID{*user, *kind, string(name)}
	if byID[id] == nil {
		open := &openLane{id: id, front: posthaste.Position(*front), share: *share, keys: map[string]*flowKey{}}
		if !id.strict() { // else its claimed messages are read, too
			open.inFlight = *inFlight + int(c.laneChanges[id].inFlight)
		}
		byID[id] = open
		c.lanes = append(c.lanes, open)
	}
	return l, nil
}

// place adds a message to its lane, which is nil if it need not be looked at. A due one that
// waits to be cancelled is claimed whatever limits its lane; in a queue it keeps its slot meanwhile.
func (c *claiming) place(l *liveMessage, lane *openLane) {
	switch {
	case !l.cancelRequested || l.ended || l.lease == 0 && l.dueMS > c.now.UnixMilli():
		lane.add(l)
		return
	case l.lease == pickedLease: // it was read twice
		return
	case l.lease == 0 && len(c.cancelled) < c.limit:
		l.lease = pickedLease
		c.cancelled = append(c.cancelled, l)
	}
	if l.begun && lane != nil {
		lane.inFlight++
	}
}

// lease leases the picked messages to this node and logs them as ACTIVE, but for those that are
// to be cancelled. The position of that event is the lease. The claims are held before they are
// committed, so that none is ever taken for an orphan.
func (c *claiming) lease(picked []*liveMessage) error {
	if len(picked) == 0 {
		return nil
	}
	for _, l := range picked {
		if m := decodeStored(l.of(), l.record); m.message != nil {
			c.messages[l.of()] = m.message
		}
	}
	messages, err := c.envelopes(column(picked, (*liveMessage).of))
	if err != nil {
		return err
	}
	c.claims = make([]store.Claim, len(picked))
	for i, l := range picked {
		c.passLeases(l.user, l.id.Slot())
		var position posthaste.Position
		if l.cancelRequested {
			position = c.nextPosition(l.user, l.id.Slot())
		} else {
			position = c.event(messages[i], posthaste.Event{MessageID: l.id, State: posthaste.StateActive})
		}
		l.lease, l.node = int64(position), c.session.Number
		c.save(l)
		c.claims[i] = store.Claim{
			Message: messages[i], Retried: l.retried, Lease: uint64(l.lease), Held: c.session.Held, CancelRequested: l.cancelRequested,
		}
	}
	c.store.held.add(c.claims)
	return nil
}

// saveLanes notes when to look at lanes again, when they were served, and where they begin. What has left
// before that is not read again: it stays on disk while somebody holds a snapshot of the database.
func (c *claiming) saveLanes() {
	for _, lane := range c.lanes {
		change := c.laneChanges[lane.id]
		change.look, change.freed, change.seen, change.ready = false, false, true, milli(lane.ready)
		if lane.servedAs > 0 {
			change.served = int64(c.claims[lane.servedAs-1].Lease)
		}
		if c.readAll && len(c.cancelled) < c.limit {
			change.front = new(int64(lane.newFront()))
		}
		c.laneChanges[lane.id] = change
	}
	c.block()
}

// block writes which keys lanes wait for.
func (c *claiming) block() {
	var keys [][]byte
	var lanes []laneID
	for _, lane := range c.lanes {
		for _, key := range lane.blockedBy {
			keys, lanes = append(keys, key), append(lanes, lane.id)
		}
	}
	if len(lanes) > 0 {
		c.exec(`
			INSERT INTO posthaste.blocked (user_id, kind, lane, flow_key)
			SELECT * FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::bytea[]) ON CONFLICT DO NOTHING`,
			append(laneKeys(lanes), keys)...)
	}
}

// readLimits reads what limits the messages: the queues of the lanes, and the flow-control
// keys with their attempts in flight.
func (c *claiming) readLimits() error {
	queueOf, err := c.queueNames()
	if err != nil {
		return err
	}
	used := c.usedKeys()
	if err := c.readKeysAway(used); err != nil {
		return err
	}
	limits := column(used, func(of name) recordOf { return flowKeyOf(of.user, of.name) })
	for _, of := range queueOf {
		limits = append(limits, recordOf{of.user, store.ItemQueue, of.name})
	}
	var spread []name
	err = c.ask(func(batch *pgx.Batch) {
		c.queueRecords(batch, unknown(limits, c.readCache.records))
		spread = c.countInFlight(batch, used)
	})
	if err != nil {
		return err
	}
	if err := c.countAway(spread); err != nil {
		return err
	}
	for lane, of := range queueOf {
		lane.queue = c.queueLimits(of)
	}
	for _, of := range used {
		c.knownKey(of)
	}
	for _, lane := range c.lanes {
		for _, l := range lane.waiting {
			if l.flowKey == nil {
				continue
			}
			of := c.keyOf(l)
			if lane.keys[of.name] = c.keys[of]; !c.lockedKey(of) {
				lane.keys[of.name] = &flowKey{elsewhere: of.user}
			}
		}
	}
	return nil
}

// queueNames returns the queues of lanes. A long queue name is hashed in the lane, so it is
// read from a message.
func (c *claiming) queueNames() (map[*openLane]name, error) {
	queueOf := map[*openLane]name{}
	for _, lane := range c.lanes {
		if !lane.id.strict() {
			continue
		}
		queueOf[lane] = name{lane.id.user, lane.id.name}
		if len(lane.id.name) == hashedLane && len(lane.waiting) > 0 {
			m, err := c.message(lane.id.user, lane.waiting[0].id)
			if err != nil {
				return nil, err
			}
			queueOf[lane] = name{m.User, m.Queue}
		}
	}
	return queueOf, nil
}

// queueLimits returns a queue whose record is known. An unreadable one counts as paused, one
// that was deleted as new.
func (c *claiming) queueLimits(of name) *posthaste.Queue {
	r := c.readCache.records[recordOf{of.user, store.ItemQueue, of.name}]
	if r.value == nil {
		return &posthaste.Queue{Name: of.name, Parallelism: posthaste.DefaultParallelism}
	}
	queue, err := record.DecodeQueue(of.name, r.value)
	if err != nil {
		c.store.setAside.addRecord(fmt.Errorf("queue %q of user %q: %w", of.name, of.user, err), c.store.logger)
		return &posthaste.Queue{Name: of.name, Paused: true}
	}
	return queue
}
