// Package storetest defines what a backend of package store is: Run turns each
// promise of the seam into a test, RunCrash proves that they survive a crash,
// Audit proves them on whatever a store holds, and Faulty makes a store fail where
// a test wants it to. Package model is the simplest store there is.
//
// A backend may hand out fewer messages of one lane than are due, but not so few
// that these tests could tell, which never ask for more than a handful of one
// lane: they claim with a limit far above what they need wherever the limit itself
// is not the question. It may also return short pages; every query is followed to
// its end.
package storetest

import (
	"testing"

	"posthaste/internal/store"
)

// Memory is how many bytes of large messages may be in flight in a store that is tested.
const Memory = 4 << 20

// Run tests a backend. It calls open for each test; open returns an empty store that has
// Memory, and sees to it that the store is closed in the end.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, group := range promises {
		t.Run(group.name, func(t *testing.T) {
			for _, p := range group.trials {
				t.Run(p.name, func(t *testing.T) { try(t, open(t), p.check) })
			}
		})
	}
}

// promises are all there are, by what they are about. Some break what they are tried on,
// or leave nothing behind.
var promises = []struct {
	name   string
	trials []promise
	breaks bool
}{
	{"Accept", acceptPromises, false},
	{"Claim", claimPromises, false},
	{"Settle", settlePromises, false},
	{"LeaseLost", leaseLostPromises, false},
	{"Release", releasePromises, false},
	{"Cancel", cancelPromises, false},
	{"RunNow", runNowPromises, false},
	{"Message", messagePromises, false},
	{"Callbacks", callbackPromises, false},
	{"DeadLetters", deadLetterPromises, false},
	{"LiveMessages", livePromises, false},
	{"Queues", queuePromises, false},
	{"FlowKeys", flowKeyPromises, false},
	{"URLGroups", urlGroupPromises, false},
	{"Schedules", schedulePromises, false},
	{"Actions", actionPromises, false},
	{"Runs", runPromises, false},
	{"RunTransactions", runAtomicPromises, false},
	{"RunLists", runListPromises, false},
	{"RunCancel", runCancelPromises, false},
	{"RunSettle", runSettlePromises, false},
	{"RunWaiting", runWaitingPromises, false},
	{"RunDLQ", runDLQPromises, false},
	{"RunAnswers", runAnswerPromises, false},
	{"RunQueries", runQueryPromises, false},
	{"RunEvents", runEventPromises, false},
	{"Events", eventsPromises, false},
	{"Pages", pagePromises, true},
	{"Watch", watchPromises, true},
	{"Positions", positionPromises, false},
	{"Retention", retentionPromises, false},
	{"RunRetention", runRetentionPromises, false},
	{"Usage", usagePromises, false},
	{"Vault", vaultPromises, false},
	{"Health", healthPromises, true},
	{"Close", closePromises, true},
	{"Concurrency", concurrencyPromises, true},
}

// promise is one sentence of the seam and how to check it.
type promise struct {
	name  string
	check func(*trial)
}
