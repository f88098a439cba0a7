package postgres

import (
	"maps"
	"sync"

	"posthaste/internal/flow"
	"posthaste/internal/store"
)

// heldClaims are the claims that this process works on or is about to commit. They take its
// slots and memory, whatever became of their leases.
type heldClaims struct {
	mu     sync.Mutex
	users  map[uint64]string // by lease
	counts map[string]int    // by user
	memory flow.Memory[laneID]
}

// inFlight is what users have in flight on this node.
type inFlight struct {
	users  map[string]int
	memory flow.Memory[laneID]
}

func (h *heldClaims) add(claims []store.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == nil {
		h.users, h.counts = map[uint64]string{}, map[string]int{}
	}
	for _, claim := range claims {
		h.users[claim.Lease] = claim.Message.User
		h.counts[claim.Message.User]++
		h.memory.Take(claim.Message.User, laneOf(claim.Message), store.DeliverySize(claim.Message))
	}
}

func (h *heldClaims) remove(claims ...store.Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, claim := range claims {
		user, there := h.users[claim.Lease]
		if !there {
			continue
		}
		delete(h.users, claim.Lease)
		h.memory.Give(user, laneOf(claim.Message), store.DeliverySize(claim.Message))
		if h.counts[user]--; h.counts[user] == 0 {
			delete(h.counts, user)
		}
	}
}

func (h *heldClaims) leases() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]int64, 0, len(h.users)) // never NULL
	for lease := range h.users {
		all = append(all, int64(lease))
	}
	return all
}

func (h *heldClaims) has(lease uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there := h.users[lease]
	return there
}

// usersOverQuota returns the users who may not start an attempt while that many slots are
// free.
func (h *heldClaims) usersOverQuota(free int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	users := []string{} // never NULL
	for user, count := range h.counts {
		if flow.UserRoom(free, count) == 0 {
			users = append(users, user)
		}
	}
	return users
}

func (h *heldClaims) inFlight() inFlight {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := make(map[string]int, len(h.counts))
	maps.Copy(counts, h.counts)
	return inFlight{counts, h.memory.Clone()}
}
