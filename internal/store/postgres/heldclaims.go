package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// heldClaims are the claims that this process works on or is about to commit. They take its
// slots and memory, even if their leases were lost. Of claims in doubt it is unknown whether
// they were committed or released: nobody works on them, so this node has to release them.
type heldClaims struct {
	mu      sync.Mutex
	held    map[leaseOf]store.Claim
	counts  *userCounts // in all databases
	memory  flow.Memory[laneID]
	inDoubt map[leaseOf]store.Claim
}

// leaseOf is a lease of a user, in whichever partition. Those of others may be equal: they are positions.
type leaseOf struct {
	user  string
	lease uint64
}

func leaseIn(claim store.Claim) leaseOf {
	return leaseOf{store.UserOf(claim.Message.User), claim.Lease}
}

// userCounts counts claims by user, who may have several partitions.
type userCounts struct {
	mu sync.Mutex
	of map[string]int
}

func newUserCounts() *userCounts { return &userCounts{of: map[string]int{}} }

func (c *userCounts) add(user string, claims int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[user] += claims; c.of[user] == 0 {
		delete(c.of, user)
	}
}

func (c *userCounts) clone() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}

func newHeldClaims(memory int, counts *userCounts) heldClaims {
	return heldClaims{held: map[leaseOf]store.Claim{}, counts: counts, memory: flow.NewMemory[laneID](memory), inDoubt: map[leaseOf]store.Claim{}}
}

// inFlight is what users have in flight on this node.
type inFlight struct {
	users  map[string]int
	memory flow.Memory[laneID]
}

func (h *heldClaims) add(claims []store.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, claim := range claims {
		h.held[leaseIn(claim)] = claim
		user := store.UserOf(claim.Message.User)
		h.counts.add(user, 1)
		h.memory.Take(user, laneOf(claim.Message), store.DeliverySize(claim.Message))
	}
}

func (h *heldClaims) remove(claims ...store.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ended := range claims {
		of := leaseIn(ended)
		claim, held := h.held[of] // its message may have got into another partition
		if !held {
			continue
		}
		delete(h.held, of)
		user := of.user
		h.memory.Give(user, laneOf(claim.Message), store.DeliverySize(claim.Message))
		h.counts.add(user, -1)
	}
}

func (h *heldClaims) leases() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]int64, 0, len(h.held)) // never NULL
	for of := range h.held {
		all = append(all, int64(of.lease))
	}
	return all
}

// knows reports whether a claim is held or in doubt.
func (h *heldClaims) knows(claim store.Claim) bool { return h.hasLease(leaseIn(claim)) }

func (h *heldClaims) hasLease(of leaseOf) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, inDoubt := h.inDoubt[of]
	_, held := h.held[of]
	return held || inDoubt
}

// passLeases has the next position of a user be none that a claim already has: that of a transaction whose
// outcome is in doubt, which is given again if that was rolled back.
func (tx *tx) passLeases(user string, slot posthaste.Slot) {
	for next := tx.last[user].Next(tx.now, slot); tx.store.held.hasLease(leaseOf{store.UserOf(user), uint64(next)}); next = next.Next(tx.now, slot) {
		tx.last[user] = next
	}
}

// usersOverQuota returns the users who may not start an attempt while that many slots are
// free.
func (h *heldClaims) usersOverQuota(free int) []string {
	var users []string
	for user, count := range h.counts.clone() {
		if flow.UserQuota(free, count) == 0 {
			users = append(users, user)
		}
	}
	return users
}

// overQuota returns the partitions of those users.
func (s *Store) overQuota(free int) []string {
	partitions := []string{} // never NULL
	for _, user := range s.held.usersOverQuota(free) {
		partitions = append(partitions, s.Division().All(user)...)
	}
	return partitions
}

func (h *heldClaims) inFlight() inFlight {
	h.mu.Lock()
	defer h.mu.Unlock()
	return inFlight{h.counts.clone(), h.memory.Clone()}
}

func (h *heldClaims) doubt(claims []store.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, claim := range claims {
		h.inDoubt[leaseIn(claim)] = claim
	}
}

func (h *heldClaims) anyInDoubt() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.inDoubt) > 0
}

// allInDoubt returns the claims in doubt, by user.
func (h *heldClaims) allInDoubt() map[string][]store.Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := map[string][]store.Claim{}
	for _, claim := range h.inDoubt {
		of[claim.Message.User] = append(of[claim.Message.User], claim)
	}
	return of
}

// released ends the doubt about claims.
func (h *heldClaims) released(claims []store.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, claim := range claims {
		delete(h.inDoubt, leaseIn(claim))
	}
}

// releaseInDoubt releases claims in doubt. Releasing twice is harmless: no other claim gets the lease of one
// that is in doubt.
func (s *Store) releaseInDoubt(ctx context.Context, now time.Time) error {
	of := s.held.allInDoubt()
	users := slices.Sorted(maps.Keys(of))
	left, err := s.forEachUser(ctx, now, users, func(tx *tx, user string) error { return tx.releaseAll(of[user]) })
	for _, user := range without(users, left) {
		s.held.released(of[user])
	}
	if err != nil {
		err = fmt.Errorf("give back claims: %w", err)
	}
	return err
}

// compareEvery is how often a node compares its leases in the database with the claims it
// holds.
const (
	compareEvery   = 3 * time.Second
	compareAtLeast = 30 * time.Second // however long it takes
)

// compareLeases releases orphaned leases of this node until the store is closed. They appear
// after a failover to a standby that lacked the last commits: what was settled in those is
// leased again.
func (s *Store) compareLeases() {
	var again time.Time
	s.repeat(compareEvery, func() {
		began := time.Now()
		if !began.Before(again) && s.releaseOrphans() == nil {
			again = time.Now().Add(min(restAfter*time.Since(began), compareAtLeast))
		}
	})
}

// releaseOrphans compares once. Errors are left to the next time.
func (s *Store) releaseOrphans() error {
	if s.node.Away() {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.closing, callTime)
	defer cancel()
	_ = s.capExpiry(ctx)
	orphaned, err := s.orphanedClaims(ctx)
	if err == nil && len(orphaned) > 0 {
		s.logger.Warn("leases.unheld", "leases", len(orphaned), "first_message_id", orphaned[0].Message.ID,
			"consequence", "the database lists leases of this node that it does not work on: their messages are due again")
		s.held.doubt(orphaned)
	}
	if s.held.anyInDoubt() { // also while nothing is claimed for want of slots
		s.releasing.run(ctx, s, func(ctx context.Context) error { return s.releaseInDoubt(ctx, time.Time{}) })
	}
	return err
}

// capExpiry lets no node count as alive for longer than a lease, as one does after the
// database's clock was set back. Nodes that live renew before that.
func (s *Store) capExpiry(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE posthaste.nodes SET expires_at = clock_timestamp() + lease
		WHERE expires_at > clock_timestamp() + 2 * lease`)
	return err
}

// orphanedClaims returns leases of this node that it does not hold. A claim is held from
// before the commit of its lease until after the commit that ends it, so a lease found twice
// without a holder is an orphan; once is not enough, for a claim may be made and settled
// meanwhile.
func (s *Store) orphanedClaims(ctx context.Context) ([]store.Claim, error) {
	suspects, err := s.findOrphans(ctx)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	still, err := s.findOrphans(ctx)
	return slices.DeleteFunc(still, func(claim store.Claim) bool {
		return !slices.ContainsFunc(suspects, func(s store.Claim) bool { return leaseIn(s) == leaseIn(claim) })
	}), err
}

// findOrphans returns leases of this node, in one snapshot, that are not held after it.
func (s *Store) findOrphans(ctx context.Context) ([]store.Claim, error) {
	found, err := rows(ctx, s.pool, func(r pgx.CollectableRow) (store.Claim, error) {
		var user string
		var id [16]byte
		var lease int64
		err := r.Scan(&user, &id, &lease)
		return store.Claim{Message: &posthaste.Message{User: user, ID: id}, Lease: uint64(lease)}, err
	}, `
		SELECT user_id, id, lease FROM posthaste.live
		WHERE node = $1 AND node <> 0 AND lease <> ALL($2) LIMIT 1000`, s.node.Number(), s.held.leases())
	return slices.DeleteFunc(found, s.held.knows), err
}
