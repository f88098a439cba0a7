package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// makeHistory fills a store with messages of two users that differ in every
// field a filter can ask for, and lets them live: a log of some hundred events
// over three days.
func (tr *trial) makeHistory() {
	tr.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 15 {
		tr.acceptMany(rng.IntN(4)+1, variety(rng))
		tr.acceptMany(1, variety(rng), ownedBy(anna))
		if ids := tr.makes.ids[ann]; rng.IntN(3) == 0 {
			tr.ok(errorOf(tr.store.Cancel(tr.Context(), tr.now, ann, ids[len(ids)-1:], nil)))
		}
		claims, _ := tr.claim(plenty)
		for _, claim := range claims {
			tr.settle(anySettlement(rng, tr.now, claim))
		}
		tr.wait(time.Duration(rng.IntN(int(12 * time.Hour))).Truncate(time.Millisecond))
	}
	tr.settleDown(ann)
	tr.settleDown(anna)
}

// variety gives each message it is applied to other values, of few, so that
// messages have some in common.
func variety(rng *rand.Rand) func(*posthaste.Message) {
	pick := func(format string) string {
		if rng.IntN(3) == 0 {
			return "" // has none
		}
		return fmt.Sprintf(format, rng.IntN(3))
	}
	return func(m *posthaste.Message) {
		port := []string{"", ":8080"}[rng.IntN(2)]
		m.URL = fmt.Sprintf("http://Host%d.example%s/path/%d?query=%d", rng.IntN(2), port, rng.IntN(2), rng.IntN(2))
		m.Method = []string{"", "GET", "POST"}[rng.IntN(3)]
		m.CallerIP = pick("192.0.2.%d")
		m.Queue = pick("queue-%d")
		m.URLGroup = pick("group-%d")
		m.ScheduleID = pick("schedule-%d")
		m.FlowControl.Key = pick("flow-%d")
		for range rng.IntN(3) {
			m.Labels = append(m.Labels, fmt.Sprintf("label-%d", rng.IntN(3)))
		}
	}
}

func anySettlement(rng *rand.Rand, now time.Time, claim store.Claim) store.Settlement {
	s := anyEnd(rng, now, claim)
	s.Attempt = posthaste.Attempt{
		Status: []int{0, 100, 200, 204, 302, 404, 499, 500, 503, 999}[rng.IntN(10)],
		Took:   time.Duration(rng.ExpFloat64()*100) * time.Millisecond,
	}
	return s
}

func anyEnd(rng *rand.Rand, now time.Time, claim store.Claim) store.Settlement {
	outcome := unreachable
	if rng.IntN(2) == 0 {
		outcome = refused
	}
	switch rng.IntN(3) {
	case 0:
		return store.Delivered(claim)
	case 1:
		return store.Failed(claim, outcome)
	default:
		return store.RetryAt(claim, now.Add(time.Duration(rng.IntN(100))*time.Minute), outcome)
	}
}
