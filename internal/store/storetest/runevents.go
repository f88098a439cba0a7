package storetest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runEventPromises = slices.Concat(queryPromises(eventsOfRuns, noEventOfRunsHas), []promise{
	{"events that tell of runs are found with those of runs only", func(tr *trial) {
		var told int
		for _, e := range eventsOfRuns(tr).things {
			if e.State.OfRun() {
				told++
			}
		}
		if told != 2*runsInHistory {
			tr.Errorf("%d events tell of runs, %d were logged", told, 2*runsInHistory)
		}
		for _, e := range tr.wholeLog(ann) {
			if e.State.OfRun() {
				tr.Errorf("%s of %s is in the log of messages", e.State, e.MessageID)
			}
		}
		for _, state := range []posthaste.State{posthaste.StateRunStarted, posthaste.StateRunFailed} {
			filter := posthaste.Filter{States: []posthaste.State{state}}
			if found := tr.events(ann, store.EventQuery{Filter: filter, High: posthaste.MaxPosition, Limit: plenty}); len(found) > 0 {
				tr.Errorf("%d events that are %s are in the log of messages", len(found), state)
			}
			filter.OfRuns = true
			if found := tr.events(ann, store.EventQuery{Filter: filter, High: posthaste.MaxPosition, Limit: plenty}); len(found) == 0 {
				tr.Errorf("no event that is %s is in the log of runs", state)
			}
		}
	}},
	{"fields of messages filter the log of messages", func(tr *trial) {
		log := tr.runHistory(eventFields)
		for _, field := range eventFields {
			log.ask(field)
		}
	}},
})

// runsInHistory is how many runs of ann runHistory starts.
const runsInHistory = 20

// eventsOfRuns is a log of messages and runs, which is asked for those of runs too.
func eventsOfRuns(tr *trial) *archive[store.Entry] {
	return tr.runHistory(append(slices.Clone(runEventFields), eventFields...))
}

// runHistory makes a log of messages and runs of two users, and returns all of ann's.
func (tr *trial) runHistory(fields []field[store.Entry]) *archive[store.Entry] {
	tr.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	for range runsInHistory {
		run, first := tr.start(runVariety(rng))
		tr.start(runVariety(rng), func(run *posthaste.Run) { run.User = anna })
		tr.step(run, variety(rng))
		tr.accept(variety(rng))
		claims, _ := tr.claim(plenty)
		for _, claim := range claims {
			tr.settle(anySettlement(rng, tr.now, claim))
		}
		tr.transact(func(tx store.RunTx) error {
			tx.Log(first, []posthaste.State{posthaste.StateRunFailed, posthaste.StateRunSuccess}[rng.IntN(2)], "")
			return nil
		})
		tr.wait(time.Duration(rng.IntN(int(12 * time.Hour))).Truncate(time.Millisecond))
	}
	tr.settleDown(ann)
	tr.settleDown(anna)
	ofRuns := tr.events(ann, logQuery(posthaste.Filter{OfRuns: true}))
	all := slices.DeleteFunc(tr.wholeLog(ann), func(e store.Entry) bool { return e.Message.Run != nil })
	all = append(all, ofRuns...)
	slices.SortFunc(all, func(a, b store.Entry) int { return cmp.Compare(a.Position, b.Position) })
	return tr.eventArchive(all, fields)
}
