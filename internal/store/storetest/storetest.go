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
			if group.reads && testing.Short() {
				t.Skip("one call follows another")
			}
			for _, p := range group.trials {
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					try(t, open(t), p.check)
				})
			}
		})
	}
}

// promises are all there are, by what they are about.
var promises = []struct {
	name   string
	trials []promise
	breaks bool // what they are tried on, or leave nothing behind
	reads  bool // many calls, one after the other: left out by -short
}{
	{name: "Accept", trials: acceptPromises},
	{name: "Claim", trials: claimPromises},
	{name: "Settle", trials: settlePromises},
	{name: "LeaseLost", trials: leaseLostPromises},
	{name: "Release", trials: releasePromises},
	{name: "Cancel", trials: cancelPromises},
	{name: "RunNow", trials: runNowPromises},
	{name: "Message", trials: messagePromises},
	{name: "Callbacks", trials: callbackPromises},
	{name: "DeadLetters", trials: deadLetterPromises},
	{name: "LargeDeadLetters", trials: largeDeadLetterPromises, reads: true},
	{name: "LiveMessages", trials: livePromises},
	{name: "Queues", trials: queuePromises},
	{name: "FlowKeys", trials: flowKeyPromises},
	{name: "URLGroups", trials: urlGroupPromises},
	{name: "Schedules", trials: schedulePromises},
	{name: "Lists", trials: listPromises, reads: true},
	{name: "Actions", trials: actionPromises},
	{name: "Runs", trials: runPromises},
	{name: "RunTransactions", trials: runAtomicPromises},
	{name: "RunLists", trials: runListPromises},
	{name: "RunCancel", trials: runCancelPromises},
	{name: "RunSettle", trials: runSettlePromises},
	{name: "RunWaiting", trials: runWaitingPromises},
	{name: "RunDLQ", trials: runDLQPromises},
	{name: "RunResponses", trials: runResponsePromises},
	{name: "RunQueries", trials: runQueryPromises, reads: true},
	{name: "RunEvents", trials: runEventPromises, reads: true},
	{name: "Events", trials: eventsPromises, reads: true},
	{name: "Pages", trials: pagePromises, breaks: true, reads: true},
	{name: "Watch", trials: watchPromises, breaks: true},
	{name: "Positions", trials: positionPromises},
	{name: "Retention", trials: retentionPromises},
	{name: "RunRetention", trials: runRetentionPromises},
	{name: "Usage", trials: usagePromises},
	{name: "Vault", trials: vaultPromises},
	{name: "Health", trials: healthPromises, breaks: true},
	{name: "Close", trials: closePromises, breaks: true},
	{name: "Concurrency", trials: concurrencyPromises, breaks: true},
}

// promise is one sentence of the seam and how to check it.
type promise struct {
	name  string
	check func(*trial)
}
