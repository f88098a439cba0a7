// Package storetest defines what a store is, and what a backend of one is.
//
// RunSeam turns each promise of store.Backend into a test; it is for each backend. RunRules does
// so with the promises of store.Store, the rules of delivery. They are in package ledger, once for
// all backends, so one backend is enough to run all of them on, the one in memory. RunBackend runs
// those of them again where it makes a difference what is below the rules: a group belongs to these
// if a method of store.Backend other than Update and View answers its questions (claims under
// their limits, what is read of the log and of lanes, retention, usage and health), if Reader.Find
// does (queries and their pages), or if several callers cross. RunHistories compares stores that
// make the same random changes, RunCrash proves that the promises survive a crash, Audit proves
// them on whatever a store holds, and Faulty makes a store fail where a test wants it to. Package
// model is the simplest store there is, with rules of its own.
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

// RunRules tests a store. It calls open for each test; open returns an empty store that has
// Memory, and sees to it that the store is closed in the end.
func RunRules(t *testing.T, open func(t *testing.T) store.Store) { run(t, false, open) }

// RunBackend tests the promises of a store that depend on its backend, like RunRules.
func RunBackend(t *testing.T, open func(t *testing.T) store.Store) { run(t, true, open) }

func run(t *testing.T, ofBackend bool, open func(t *testing.T) store.Store) {
	for _, group := range promises {
		if ofBackend && !group.backend {
			continue
		}
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
	name    string
	trials  []promise
	backend bool // what is below the rules makes a difference, see RunBackend
	breaks  bool // what they are tried on, or leave nothing behind
	reads   bool // many calls, one after the other: left out by -short
}{
	{name: "Accept", trials: acceptPromises},
	{name: "Claim", trials: claimPromises, backend: true},
	{name: "Settle", trials: settlePromises},
	{name: "LeaseLost", trials: leaseLostPromises},
	{name: "Release", trials: releasePromises},
	{name: "Cancel", trials: cancelPromises},
	{name: "RunNow", trials: runNowPromises},
	{name: "Message", trials: messagePromises},
	{name: "Callbacks", trials: callbackPromises},
	{name: "DeadLetters", trials: deadLetterPromises},
	{name: "DeadLetterQueries", trials: deadLetterQueryPromises, backend: true, reads: true},
	{name: "LargeDeadLetters", trials: largeDeadLetterPromises, reads: true},
	{name: "LiveMessages", trials: livePromises, backend: true},
	{name: "Queues", trials: queuePromises, backend: true},
	{name: "FlowKeys", trials: flowKeyPromises, backend: true},
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
	{name: "RunQueries", trials: runQueryPromises, backend: true, reads: true},
	{name: "FailedRunQueries", trials: queryPromises(runsFailed, noRunHas), backend: true, reads: true},
	{name: "RunEvents", trials: runEventPromises, backend: true, reads: true},
	{name: "Events", trials: eventsPromises, backend: true, reads: true},
	{name: "Pages", trials: pagePromises, backend: true, breaks: true, reads: true},
	{name: "Counts", trials: countPromises, backend: true, reads: true},
	{name: "Watch", trials: watchPromises, backend: true, breaks: true},
	{name: "Positions", trials: positionPromises, backend: true},
	{name: "Retention", trials: retentionPromises, backend: true},
	{name: "RunRetention", trials: runRetentionPromises},
	{name: "Usage", trials: usagePromises, backend: true},
	{name: "Vault", trials: vaultPromises},
	{name: "Health", trials: healthPromises, backend: true, breaks: true},
	{name: "Close", trials: closePromises, backend: true, breaks: true},
	{name: "Concurrency", trials: concurrencyPromises, backend: true, breaks: true},
}

// promise is one sentence of the seam and how to check it.
type promise struct {
	name  string
	check func(*trial)
}
