package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// Claim implements store.Worker. It writes nothing while nothing is due.
func (s *Store) Claim(ctx context.Context, now time.Time, limit int) (claims []store.Claim, next time.Time, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done(&err)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if s.inDoubt.any() {
		s.releasing.run(ctx, s, func(ctx context.Context) error { return s.releaseInDoubt(ctx, now) })
	}
	if claims, err := s.lateResults.take(limit); len(claims) > 0 || err != nil {
		return s.withoutExpired(claims), now, err
	}
	busy := append(s.lateResults.users(), s.held.usersOverQuota(limit)...)
	seen, err := s.survey(ctx, now, limit, busy)
	if err == nil && len(seen.dead) > 0 && s.reaping.run(ctx, s, func(ctx context.Context) error { return s.reapDeadNodes(ctx, now) }) {
		seen, err = s.survey(ctx, now, limit, busy)
	}
	if err != nil || len(seen.users) == 0 {
		return nil, fromMilli(seen.next), err
	}
	claims, next, err = s.claimForUsers(ctx, now, seen.users, limit)
	if errors.Is(err, errSessionExpired) {
		return s.withoutExpired(claims), now, s.renew(ctx)
	}
	return s.withoutExpired(claims), next, err
}

// withoutExpired drops claims whose lease this node has lost meanwhile, as after a pause of
// the process.
func (s *Store) withoutExpired(claims []store.Claim) []store.Claim {
	s.node.session.Load().alive() // or else it lapses now
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
	if isUnavailable(err) || errors.Is(err, errSessionExpired) {
		return nil, time.Time{}, err
	}
	if err != nil {
		c.users = nil
	}
	var unreadable unreadableError
	errors.As(err, &unreadable)
	free := limit - len(c.claims)
	others := slices.DeleteFunc(slices.Clone(users), func(user string) bool { return slices.Contains(c.users, user) })
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
	if err := s.partitions.ensure(ctx, s.pool, now); err != nil {
		return err
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // ends the connection if the transaction goes on
	t := newUserTx(ctx, s, conn.Conn())
	all := c.users
	if c.users, err = t.lock(lockFreeUserRows, all, []*change{{now: now}}); err != nil {
		return err
	}
	if len(c.users) == 0 {
		return t.rollback()
	}
	if err = c.run(&tx{userTx: t, now: now}); err == nil {
		err = t.commit()
	}
	if err = s.finishClaim(c, err); err == nil {
		s.changed(c.users...)
	}
	return err
}

// claimForUser claims from one user and waits for the row.
func (s *Store) claimForUser(ctx context.Context, now time.Time, user string, limit int) ([]store.Claim, time.Time, error) {
	c := s.newClaiming([]string{user}, limit)
	err := s.finishClaim(c, s.change(ctx, now, c.users, prefetch{}, c.run))
	return c.claims, fromMilli(c.next), err
}

// finishClaim handles a failed claim: its messages are not held, or in doubt, and unreadable
// ones are set aside.
func (s *Store) finishClaim(c *claiming, err error) error {
	if err == nil {
		return nil
	}
	s.held.remove(c.claims...)
	if errors.Is(err, errInDoubt) {
		s.inDoubt.add(c.claims)
	}
	if unreadable, ok := errors.AsType[unreadableError](err); ok {
		s.setAside.add(unreadable, s.logger)
	}
	c.users, c.claims, c.next = nil, nil, nil
	return err
}

// survey is what Claim must know before it locks users.
type survey struct {
	dead  []int64  // nodes that have fallen silent and hold leases
	users []string // with lanes that are ready, those first that were served longest ago
	next  *int64   // when the next lane is, if none is now
}

// survey looks at all users but the busy ones.
func (s *Store) survey(ctx context.Context, now time.Time, limit int, busy []string) (survey, error) {
	return row(ctx, s.pool, func(r pgx.CollectableRow) (seen survey, err error) {
		err = r.Scan(&seen.dead, &seen.users, &seen.next)
		return seen, err
	}, `
		SELECT
			ARRAY(SELECT node FROM posthaste.nodes n WHERE expires_at <= clock_timestamp()
				AND EXISTS (SELECT FROM posthaste.live l WHERE l.node = n.node AND l.node <> 0)),
			ARRAY(SELECT user_id FROM posthaste.lanes WHERE ready <= $1 AND user_id <> ALL($3)
				GROUP BY user_id ORDER BY min(served), user_id LIMIT $2),
			(SELECT min(ready) FROM posthaste.lanes WHERE user_id <> ALL($3))`, now.UnixMilli(), limit, busy)
}

// claiming is one claim in a transaction of some users.
type claiming struct {
	*tx
	users     []string
	limit     int
	overQuota []string     // whose lanes are of no interest when to look again
	node      *nodeSession // of this node in this turn
	lanes     []*openLane
	claims    []store.Claim
	next      *int64 // when to look at a lane again; known after the commit
}

func (s *Store) newClaiming(users []string, limit int) *claiming {
	return &claiming{users: users, limit: limit, overQuota: s.held.usersOverQuota(limit)}
}

// run serves lanes, one message of each in turn.
func (c *claiming) run(tx *tx) error {
	tx.store.held.remove(c.claims...) // of a try that failed
	c.tx, c.node, c.lanes, c.claims, c.next = tx, tx.store.node.session.Load(), nil, nil, nil
	if err := c.read(); err != nil {
		return err
	}
	if err := c.readLimits(); err != nil {
		return err
	}
	c.stampKeys()
	c.writes++ // what is picked is not as it was read any more
	if err := c.lease(serveInTurn(c.lanes, c.store.held.inFlight(), c.now, c.limit)); err != nil {
		return err
	}
	c.saveLanes()
	c.queuedLast.Queue(`SELECT min(ready) FROM posthaste.lanes WHERE user_id <> ALL($1)`, c.overQuota).QueryRow(func(r pgx.Row) error { return r.Scan(&c.next) })
	return nil
}

// stampKeys tells the flow-control keys the time that the attempts' events will have.
func (c *claiming) stampKeys() {
	for _, lane := range c.lanes {
		for _, key := range lane.keys {
			key.loggedAt = c.peek(1).Time()
		}
	}
}

// readAhead is how many messages of a lane are read beyond its equal share.
const readAhead = 8

// readyLanes are the lanes to look at, one of each user in turn, least recently served first.
const readyLanes = `
	SELECT user_id, kind, lane, in_flight FROM (
		SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY served, kind, lane) AS turn
		FROM posthaste.lanes WHERE ready <= $1 AND user_id = ANY($2)) AS l
	ORDER BY turn, served, user_id, kind, lane LIMIT $3`

// messagesInLanes are the first waiting messages of those lanes, and all that have begun in
// queues, each with the size of its delivery. Messages that are set aside are left out.
const messagesInLanes = `
	WITH ready AS MATERIALIZED (` + readyLanes + `),
		share AS MATERIALIZED (SELECT $3 / greatest(count(*), 1) + $4 AS n FROM ready)
	SELECT w.* FROM ready l, LATERAL (
		SELECT ` + liveColumns + `, (SELECT octet_length(record) + list_bytes FROM posthaste.messages m WHERE m.user_id = w.user_id AND m.id = w.id) AS size
		FROM posthaste.live w
		WHERE w.user_id = l.user_id AND w.kind = l.kind AND w.lane = l.lane AND NOT w.begun AND w.id <> ALL($5)
		ORDER BY w.place, w.id LIMIT (SELECT n FROM share)) AS w
	UNION ALL
	SELECT b.* FROM ready l, LATERAL (
		SELECT ` + liveColumns + `, (SELECT octet_length(record) + list_bytes FROM posthaste.messages m WHERE m.user_id = b.user_id AND m.id = b.id) AS size
		FROM posthaste.live b
		WHERE b.user_id = l.user_id AND b.kind = 113 AND b.lane = l.lane AND b.begun AND b.id <> ALL($5)) AS b
	WHERE l.kind = 113`

// read reads lanes and their messages, and whether this node is alive.
func (c *claiming) read() error {
	var alive []bool
	var found []*liveMessage
	at := c.now.UnixMilli()
	err := c.ask(func(batch *pgx.Batch) {
		collect(batch.Queue(`
			SELECT expires_at > clock_timestamp() FROM posthaste.nodes WHERE node = $1`, c.node.node), &alive, pgx.RowTo[bool])
		collect(batch.Queue(readyLanes, at, c.users, c.limit), &c.lanes, c.scanLane)
		collect(batch.Queue(messagesInLanes, at, c.users, c.limit, readAhead, c.store.setAside.ids()), &found, c.scanSized)
	})
	switch {
	case err != nil:
		return err
	case len(alive) == 0 || !alive[0] || !c.node.alive():
		return errSessionExpired
	}
	byID := make(map[laneID]*openLane, len(c.lanes))
	for _, lane := range c.lanes {
		byID[lane.id] = lane
	}
	for _, l := range found {
		byID[l.lane].add(l)
	}
	for _, lane := range c.lanes {
		lane.arrange(c.limit/len(c.lanes) + readAhead)
	}
	return nil
}

// scanLane reads a lane, and adds the changes of this transaction.
func (c *claiming) scanLane(r pgx.CollectableRow) (*openLane, error) {
	lane := &openLane{keys: map[string]*flowKey{}}
	var name []byte
	err := r.Scan(&lane.id.user, &lane.id.kind, &name, &lane.inFlight)
	lane.id.name = string(name)
	lane.inFlight += int(c.laneChanges[lane.id].inFlight)
	return lane, err
}

func (c *claiming) scanSized(r pgx.CollectableRow) (*liveMessage, error) {
	var size *int
	l, err := c.scanLiveAnd(r, &size)
	if err == nil && size != nil {
		l.size = *size
	}
	return l, err
}

// lease leases the picked messages to this node and logs them as ACTIVE; the position of that
// event is the lease. The claims are held before they are committed, so that none is ever
// taken for an orphan.
func (c *claiming) lease(picked []*liveMessage) error {
	if len(picked) == 0 {
		return nil
	}
	of := make([]messageOf, len(picked))
	for i, l := range picked {
		of[i] = messageOf{l.user, l.id}
	}
	messages, err := c.envelopes(of)
	if err != nil {
		return err
	}
	c.reserve(len(picked))
	c.claims = make([]store.Claim, len(picked))
	for i, l := range picked {
		position := c.event(messages[i], posthaste.Event{MessageID: l.id, State: posthaste.StateActive})
		l.lease, l.node = int64(position), c.node.node
		c.save(l)
		c.claims[i] = store.Claim{Message: messages[i], Retried: l.retried, Lease: uint64(l.lease), Held: c.node.ctx}
	}
	c.store.held.add(c.claims)
	return nil
}

// saveLanes writes when to look at lanes again, and when they were served.
func (c *claiming) saveLanes() {
	for _, lane := range c.lanes {
		if lane.blockedBy != nil {
			c.exec(`UPDATE posthaste.lanes SET held_by = $4 WHERE user_id = $1 AND kind = $2 AND lane = $3`,
				lane.id.user, lane.id.kind, []byte(lane.id.name), lane.blockedBy)
		}
	}
	if len(c.lanes) > 0 {
		c.exec(`
			UPDATE posthaste.lanes l SET ready = r.ready, served = coalesce(r.served, l.served)
			FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::bigint[], $5::bigint[]) AS r (user_id, kind, lane, ready, served)
			WHERE l.user_id = r.user_id AND l.kind = r.kind AND l.lane = r.lane`,
			append(laneKeys(column(c.lanes, func(l *openLane) laneID { return l.id })),
				column(c.lanes, func(l *openLane) *int64 { return milli(l.ready) }), column(c.lanes, c.servedAt))...)
	}
}

// servedAt is the lease that a lane was served with last in this claim, or nil.
func (c *claiming) servedAt(lane *openLane) *int64 {
	if lane.servedAs == 0 {
		return nil
	}
	at := int64(c.claims[lane.servedAs-1].Lease)
	return &at
}
