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

// Run tests a backend. It calls open for each test; open returns an empty store
// and sees to it that the store is closed in the end.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	groups := []struct {
		name   string
		trials []promise
	}{
		{"Accept", acceptPromises},
		{"Claim", claimPromises},
		{"Settle", settlePromises},
		{"LeaseLost", leaseLostPromises},
		{"Release", releasePromises},
		{"Cancel", cancelPromises},
		{"Message", messagePromises},
		{"Callbacks", callbackPromises},
		{"DeadLetters", deadLetterPromises},
		{"LiveMessages", livePromises},
		{"Queues", queuePromises},
		{"FlowKeys", flowKeyPromises},
		{"URLGroups", urlGroupPromises},
		{"Schedules", schedulePromises},
		{"Actions", actionPromises},
		{"Runs", runPromises},
		{"RunTransactions", runAtomicPromises},
		{"RunLists", runListPromises},
		{"RunCancel", runCancelPromises},
		{"RunSettle", runSettlePromises},
		{"RunWaiting", runWaitingPromises},
		{"RunDLQ", runDLQPromises},
		{"RunAnswers", runAnswerPromises},
		{"RunQueries", runQueryPromises},
		{"RunEvents", runEventPromises},
		{"Events", eventsPromises},
		{"Watch", watchPromises},
		{"Positions", positionPromises},
		{"Retention", retentionPromises},
		{"RunRetention", runRetentionPromises},
		{"Usage", usagePromises},
		{"Vault", vaultPromises},
		{"Health", healthPromises},
		{"Close", closePromises},
		{"Concurrency", concurrencyPromises},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, p := range group.trials {
				t.Run(p.name, func(t *testing.T) { try(t, open(t), p.check) })
			}
		})
	}
}

// promise is one sentence of the seam and how to check it.
type promise struct {
	name  string
	check func(*trial)
}
