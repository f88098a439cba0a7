package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// acceptedClaims are claims that were made by the commits that accepted their messages, with what the
// last Claim has found out: how many slots are free, and when it must look for messages again.
type acceptedClaims struct {
	enabled bool
	look    atomic.Bool // something has happened since the last look

	mu     sync.Mutex
	free   int           // slots that nothing has taken since the last Claim
	taken  int           // of those, by commits that go on
	claims []store.Claim // for the next Claim
	at     time.Time     // of the last look that left nobody out; zero: there is none
	next   time.Time     // when a message is due, as it has seen; zero: none is
}

// take returns up to limit claims. Until the slots that are left are known, none is free.
func (a *acceptedClaims) take(limit int) []store.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = 0
	n := min(limit, len(a.claims))
	claims := a.claims[:n:n]
	a.claims = slices.Clone(a.claims[n:]) // keeps no message that was taken
	return claims
}

// add adds the claims of a commit.
func (a *acceptedClaims) add(claims []store.Claim) {
	if len(claims) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken -= len(claims)
	a.claims = append(a.claims, claims...)
}

// setFree says how many slots the caller of Claim has left. Claims that it has not got yet need some of
// them.
func (a *acceptedClaims) setFree(slots int) {
	if !a.enabled {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = max(0, slots-len(a.claims)-a.taken)
}

// lowerFree says that no more slots than that are free.
func (a *acceptedClaims) lowerFree(slots int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = min(a.free, max(0, slots-len(a.claims)-a.taken))
}

func (a *acceptedClaims) anyFree() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free > 0
}

// reserve takes up to that many slots for a commit, and returns how many were free.
func (a *acceptedClaims) reserve(wanted int) (slots, free int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slots, free = min(wanted, a.free), a.free
	a.free -= slots
	a.taken += slots
	return slots, free
}

// cancel ends a reservation. The next Claim says whether its slots are still free.
func (a *acceptedClaims) cancel(slots int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken -= slots
}

// takeLast waits for commits that go on, and takes all claims.
func (a *acceptedClaims) takeLast(ctx context.Context) []store.Claim {
	const pause = 5 * time.Millisecond
	for ctx.Err() == nil {
		a.mu.Lock()
		taken := a.taken
		a.mu.Unlock()
		if taken == 0 {
			break
		}
		time.Sleep(pause)
	}
	return a.take(math.MaxInt)
}

// releaseAccepted releases the claims that Claim has not returned, so that other nodes need not wait until
// this one has left. No commit makes more of them: it has no share.
func (s *Store) releaseAccepted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	of := map[string][]store.Claim{}
	for _, claim := range s.accepted.takeLast(ctx) {
		of[claim.Message.User] = append(of[claim.Message.User], claim)
	}
	var err error
	for _, claims := range of {
		err = errors.Join(err, s.Release(ctx, s.Now(), claims))
	}
	return err
}

// looked notes what a look has found out that left nobody out.
func (a *acceptedClaims) looked(now, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.next = now, next
}

// lookEvery is how often Claim looks for messages, and dead nodes, even if nothing has happened.
const lookEvery = time.Second

// rest returns when a message is due, if the last look is known to be still right.
func (a *acceptedClaims) rest(now time.Time) (next time.Time, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch age := now.Sub(a.at); {
	case !a.enabled || a.look.Load() || age < 0 || age >= lookEvery || !a.next.IsZero() && !now.Before(a.next):
		return now, false
	}
	return a.next, true
}

// laneCounts is what a transaction knows of a lane when it begins.
type laneCounts struct {
	live, inFlight int
	ready          *int64 // when Claim is to look at it
	node           int64  // that read them; 0: it was taken for dead
}

// rests reports whether there is nothing in the lane that could start, or that waits for a slot.
func (l laneCounts) rests(now time.Time) bool {
	return l.ready == nil || *l.ready > now.Add(freedBefore).UnixMilli()
}

// lanesToClaimFrom returns the lanes of messages that may be claimed when they are accepted.
func lanesToClaimFrom(user string, accepted []*posthaste.Message) (lanes []laneID) {
	for _, m := range accepted {
		if lane := laneIn(user, m.Lane()); lane.ofHost() {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

func (l laneID) ofHost() bool { return posthaste.LaneKind(l.kind) == posthaste.LaneHost }

const countsOfLanes = `
	SELECT w.user_id, w.kind, w.lane, coalesce(found.live, 0), coalesce(found.in_flight, 0), found.ready,
		coalesce((SELECT node FROM posthaste.nodes WHERE node = $4 AND expires_at > clock_timestamp()), 0)
	FROM unnest($1::text[], $2::smallint[], $3::bytea[]) AS w (user_id, kind, lane) LEFT JOIN LATERAL (
		SELECT live, in_flight, ready FROM posthaste.lanes
		WHERE user_id = w.user_id AND kind = w.kind AND lane = w.lane ORDER BY moved DESC LIMIT 1) AS found ON true`

// queueLanes queues the reads of lanes that are not known.
func (t *userTx) queueLanes(batch *pgx.Batch, wanted []laneID) {
	share := t.store.share.Load()
	lanes := slices.DeleteFunc(unknown(wanted, t.lanes), func(lane laneID) bool { return !share.has(shardOf(lane.user)) })
	if len(lanes) == 0 {
		return
	}
	batch.Queue(countsOfLanes, append(laneKeys(lanes), t.store.node.Number())...).Query(func(found pgx.Rows) error {
		var id laneID
		var lane []byte
		var counts laneCounts
		_, err := pgx.ForEachRow(found, []any{&id.user, &id.kind, &lane, &counts.live, &counts.inFlight, &counts.ready, &counts.node}, func() error {
			id.name = string(lane)
			t.lanes[id] = counts
			return nil
		})
		return err
	})
}

// arrive counts an accepted message in its lane.
func (t *userTx) arrive(l *liveMessage) {
	t.writes++
	change := t.laneChanges[l.lane]
	change.live++
	t.laneChanges[l.lane] = change
	t.arrived = append(t.arrived, l)
}

// leaveToClaim has Claim look at the lanes of accepted messages.
func (t *userTx) leaveToClaim() {
	for _, l := range t.arrived {
		change := t.laneChanges[l.lane]
		change.look = true
		t.laneChanges[l.lane] = change
	}
	t.arrived = nil
}

// claimAccepted claims accepted messages before the commit, if nothing waits in the lane of their host
// that could start. So most messages need no other transaction to start, and no look for what is due.
// Queues, flow-control keys and large messages are left to Claim.
func (t *userTx) claimAccepted() error {
	arrived := t.arrived
	slots, free := t.store.accepted.reserve(len(arrived))
	if slots == 0 {
		t.leaveToClaim()
		return nil
	}
	defer func() { t.store.accepted.cancel(slots - len(t.newClaims)) }()
	batch := &pgx.Batch{}
	t.queueLanes(batch, column(arrived, func(l *liveMessage) laneID { return l.lane }))
	if err := t.send(batch); err != nil {
		return err
	}
	session, tx := t.store.node.Session(), t.at(t.latest)
	arrivedIn, taken := map[laneID]int{}, t.store.held.counts.clone()
	for _, l := range arrived {
		arrivedIn[l.lane]++
	}
	slices.SortFunc(arrived, compareInLane)
	t.arrived = nil
	for _, l := range arrived {
		user := store.UserOf(l.user)
		allowed := flow.UserQuota(free, taken[user])
		if len(t.newClaims) == slots || allowed == 0 || !session.Alive() || t.lanes[l.lane].node != session.Number ||
			!t.isReady(l) || !t.isNext(l.lane, arrivedIn[l.lane], allowed) {
			t.arrived = append(t.arrived, l)
			continue
		}
		free, taken[user] = free-1, taken[user]+1
		arrivedIn[l.lane]--
		m := t.messages[l.of()]
		tx.passLeases(l.user, l.id.Slot())
		position := tx.event(m, posthaste.Event{MessageID: l.id, State: posthaste.StateActive})
		l.lease, l.node = int64(position), session.Number
		t.save(l)
		t.newClaims = append(t.newClaims, store.Claim{Message: m, Retried: l.retried, Lease: uint64(l.lease), Held: session.Held})
	}
	t.serve()
	t.store.held.add(t.newClaims)
	t.leaveToClaim()
	return nil
}

// isReady reports whether the commit may claim an accepted message, apart from others in its lane.
func (t *userTx) isReady(l *liveMessage) bool {
	m := t.messages[l.of()]
	return t.store.share.Load().has(shardOf(l.user)) && l.lane.ofHost() && l.lease == 0 && !l.gone && !l.cancelRequested &&
		l.dueMS <= t.latest.UnixMilli() && m != nil && store.DeliverySize(m) <= flow.SmallMessage
}

// isNext reports whether nothing in a lane goes before a message that has arrived, and the lane may have
// another attempt in flight. arrived is how many have arrived and are not claimed.
func (t *userTx) isNext(id laneID, arrived, allowed int) bool {
	lane, change := t.lanes[id], t.laneChanges[id]
	inFlight := lane.inFlight + int(change.inFlight)
	others := lane.live + int(change.live) - inFlight - arrived
	return (others == 0 || !change.look && !change.seen && lane.rests(t.latest)) && inFlight < flow.Ceiling(allowed)
}

// serve notes from which lanes the commit has claimed. What it has claimed there never waited.
func (t *userTx) serve() {
	served := map[laneID]bool{}
	for _, claim := range t.newClaims {
		lane := laneOf(claim.Message)
		change := t.laneChanges[lane]
		change.served, change.waits = int64(claim.Lease), false
		t.laneChanges[lane], served[lane] = change, true
	}
	for _, l := range t.lives {
		if l != nil && served[l.lane] && l.waitsAt != nil {
			t.waitsAt(l.lane, *l.waitsAt)
		}
	}
}

// dropClaimed gives up the claims of a commit that failed.
func (t *userTx) dropClaimed() {
	t.store.held.remove(t.newClaims...)
	t.store.accepted.cancel(len(t.newClaims))
}
