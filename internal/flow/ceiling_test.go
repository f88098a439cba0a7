package flow_test

import (
	"testing"

	"pgregory.net/rapid"

	"posthaste/internal/flow"
)

func TestUserQuota(t *testing.T) {
	for name, c := range map[string]struct{ free, inFlight, want int }{
		"nothing is free":        {0, 0, 0},
		"the only slot":          {1, 0, 1},
		"nobody else":            {4096, 0, 3072},
		"the rest is for others": {1024, 3072, 0},
		"one has ended":          {1025, 3071, 1},
		"the last of four":       {1, 3, 0},
		"the last of three":      {1, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := flow.UserQuota(c.free, c.inFlight); got != c.want {
				t.Errorf("UserQuota(%d, %d) = %d, want %d", c.free, c.inFlight, got, c.want)
			}
		})
	}
}

// A quota can be used one attempt after the other, and no more than that can start.
func TestUserQuotaCountsDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free, inFlight := rapid.IntRange(0, 5000).Draw(t, "free"), rapid.IntRange(0, 5000).Draw(t, "in flight")
		for quota := flow.UserQuota(free, inFlight); quota > 0; quota-- {
			free, inFlight = free-1, inFlight+1
			if got := flow.UserQuota(free, inFlight); got != quota-1 {
				t.Fatalf("%d are left after one of %d", got, quota)
			}
		}
	})
}

// Users use all of their quotas, in any order, and none of their attempts ends: another user finds
// a slot, as long as a quarter of a quarter, and so on, is one.
func TestUsersLeaveASlotForAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.IntRange(1, 6).Draw(t, "users")
		inFlight, free := make([]int, users), rapid.IntRange(1<<(2*users), 5000).Draw(t, "slots")
		for _, user := range rapid.SliceOf(rapid.IntRange(0, users-1)).Draw(t, "order") {
			quota := flow.UserQuota(free, inFlight[user])
			inFlight[user], free = inFlight[user]+quota, free-quota
		}
		if flow.UserQuota(free, 0) == 0 {
			t.Errorf("nothing is left to another than %d users, who hold %v", users, inFlight)
		}
	})
}
