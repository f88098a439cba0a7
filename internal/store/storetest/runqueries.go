package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

var runQueryPromises = slices.Concat(queryPromises(runsStarted, noRunHas), []promise{
	{"a store without runs has none", func(tr *trial) {
		for _, query := range []store.RunQuery{allRuns, allInDLQ} {
			for _, query.OldestFirst = range []bool{true, false} {
				if page, err := tr.store.Runs(tr.Context(), ann, query); err != nil || len(page.Runs) > 0 || page.More {
					tr.Errorf("Runs = %+v, %v, want an empty last page", page, err)
				}
			}
		}
	}},
	{"a run is found by what it gets later, among many that had it", func(tr *trial) {
		const many = 100
		var all []posthaste.RunRef
		tr.transact(func(tx store.RunTx) error {
			all = nil
			for n := range many {
				made := tr.runOf(withID(fmt.Sprintf("run-%03d", n)))
				made.Position = tx.NextPosition(made.Slot())
				made.CreatedAt, made.Labels, made.FlowControl.Key = made.Position.Time(), []string{"label"}, "key"
				tx.Start(&made)
				all = append(all, made.RunRef)
			}
			return nil
		})
		tr.transact(func(tx store.RunTx) error {
			for _, ref := range all {
				run, err := tx.Run(ref.Position)
				if err != nil {
					return err
				}
				run.Labels, run.FlowControl.Key = nil, ""
				tx.Save(run)
			}
			return nil
		})
		queries := map[string]posthaste.Filter{"label": {Labels: []string{"label"}}, "flow-control key": {FlowKeys: []string{"key"}}}
		for name, filter := range queries {
			if found := tr.runs(ann, withFilter(allRuns, filter)); len(found) > 0 {
				tr.Errorf("%d runs are found by a %s that they had", len(found), name)
			}
		}
		late := &posthaste.Run{User: ann, RunRef: all[many/2]}
		tr.update(late, func(_ store.RunTx, run *posthaste.Run) error {
			run.Labels, run.FlowControl.Key = []string{"label"}, "key"
			return nil
		})
		for name, filter := range queries {
			if found := tr.runs(ann, withFilter(allRuns, filter)); len(found) != 1 || found[0].RunRef != late.RunRef {
				tr.Errorf("%d runs are found by their %s, want the one that got it late", len(found), name)
			}
		}
	}},
	{"what has changed is found as it is", func(tr *trial) {
		a := tr.makeRuns(30)
		for range 2 {
			a.shake()
			for _, field := range runFields {
				a.archive(false).ask(field)
				a.archive(true).ask(field)
			}
		}
	}},
	{"changes while a reader pages do not disturb it", func(tr *trial) {
		for _, query := range []store.RunQuery{{}, {OldestFirst: true}, {Failed: true}, {Failed: true, OldestFirst: true}} {
			query.High, query.Limit = posthaste.MaxPosition, 3
			tr.makeRuns(15).page(query)
		}
	}},
})

// runsStarted are runs that differ in all that can be filtered, runsFailed those in the DLQ.
func runsStarted(tr *trial) *archive[*posthaste.Run] { return tr.makeRuns(30).archive(false) }
func runsFailed(tr *trial) *archive[*posthaste.Run]  { return tr.makeRuns(30).archive(true) }

// runSet is all runs of ann, which queries are compared with.
type runSet struct {
	*trial
	runs  []*posthaste.Run                          // by position
	inDLQ map[posthaste.DeadLetterID]*posthaste.Run // those in the DLQ
	rng   *rand.Rand
}

// makeRuns starts n runs of ann that differ in all that can be filtered, and
// some of anna. A third is in the DLQ.
func (tr *trial) makeRuns(n int) *runSet {
	tr.Helper()
	a := &runSet{trial: tr, rng: rand.New(rand.NewPCG(9, 10))}
	for range n {
		run, _ := tr.start(runVariety(a.rng))
		tr.addToDLQ(tr.firstOf(tr.start(runVariety(a.rng), func(run *posthaste.Run) { run.User = anna })))
		switch a.rng.IntN(4) {
		case 0:
			tr.update(run, func(_ store.RunTx, run *posthaste.Run) error {
				run.State = posthaste.RunStates[a.rng.IntN(len(posthaste.RunStates))]
				return nil
			})
		case 1, 2:
			a.fail(run)
		}
		tr.wait(time.Duration(a.rng.IntN(3)) * time.Hour)
	}
	a.refresh()
	a.shake()
	return a
}

func (*trial) firstOf(run *posthaste.Run, _ *posthaste.Message) *posthaste.Run { return run }

// runVariety gives each run it is applied to other values, of few, so that runs
// have some in common.
func runVariety(rng *rand.Rand) func(*posthaste.Run) {
	var like posthaste.Message
	vary := variety(rng)
	return func(run *posthaste.Run) {
		like = posthaste.Message{}
		vary(&like)
		run.ID = fmt.Sprintf("wfr_%c%d", 'a'+rune(rng.IntN(3)), rng.IntN(30))
		run.URL, run.CallerIP = like.URL, like.CallerIP
		run.Settings = like.Settings
	}
}

// fail lets a run fail for one reason or another.
func (a *runSet) fail(run *posthaste.Run) {
	a.Helper()
	m := a.message(delayed(never))
	letter := &posthaste.DeadLetter{Error: "no"}
	if status := a.rng.IntN(3); status > 0 {
		letter.Response = &posthaste.Response{Status: 500 + status}
	}
	a.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		letter.Message = m
		err := appendTo(tx, run, m)
		addToDLQIn(tx, run, letter)
		return err
	})
}

// refresh reads all runs again, one by one.
func (a *runSet) refresh() {
	a.Helper()
	a.runs, a.inDLQ = nil, map[posthaste.DeadLetterID]*posthaste.Run{}
	seen := map[posthaste.Position]bool{}
	for _, e := range a.events(ann, logQuery(posthaste.Filter{OfRuns: true})) {
		if seen[e.Message.Run.Position] {
			continue
		}
		seen[e.Message.Run.Position] = true
		run := a.run(&posthaste.Run{User: ann, RunRef: e.Message.Run.RunRef})
		a.runs = append(a.runs, run)
		if run.DeadLetterID != 0 && run.Successor == nil {
			a.inDLQ[run.DeadLetterID] = run
		}
	}
	slices.SortFunc(a.runs, func(x, y *posthaste.Run) int { return int(x.Position) - int(y.Position) })
}

// shake changes what may change of some runs.
func (a *runSet) shake() {
	a.Helper()
	for _, run := range a.runs {
		switch inDLQ := a.inDLQ[run.DeadLetterID] != nil; {
		case inDLQ && a.rng.IntN(8) == 0:
			a.removeFromDLQ(run)
		case a.rng.IntN(3) == 0:
			a.report(run, posthaste.CallbackStates[a.rng.IntN(len(posthaste.CallbackStates))])
		case !inDLQ && run.DeadLetterID == 0 && a.rng.IntN(4) == 0:
			a.fail(run)
		case !inDLQ && a.rng.IntN(2) == 0:
			a.update(run, func(_ store.RunTx, run *posthaste.Run) error {
				run.State = posthaste.RunStates[a.rng.IntN(len(posthaste.RunStates))]
				run.Labels = append(slices.Clone(run.Labels), "label-1")
				return nil
			})
		}
	}
	a.refresh()
}

// removeFromDLQ takes a run out of the DLQ, as a restart would; its failure callback may
// end at the same time.
func (a *runSet) removeFromDLQ(run *posthaste.Run) {
	a.Helper()
	report := a.rng.IntN(2) == 0
	a.update(run, func(tx store.RunTx, run *posthaste.Run) error {
		run.Successor = &posthaste.RunRef{ID: "successor"}
		if report {
			run.Reported = &posthaste.RunCallback{State: posthaste.CallbackCancelled}
		}
		tx.RemoveFromDLQ(run)
		return nil
	})
}

// page reads page by page, and between pages changes runs, starts and buries others,
// and takes some out of the DLQ, also the one the next page begins with. What was
// there before and is there in the end must be seen once, nothing twice.
func (a *runSet) page(query store.RunQuery) {
	a.Helper()
	whole := question{high: query.High, limit: query.Limit}
	seen := map[posthaste.Position]int{}
	there := func() (all []posthaste.Position) {
		archive := a.archive(query.Failed)
		for _, run := range archive.answer(whole) {
			all = append(all, archive.at(run))
		}
		return all
	}
	before := there()
	for pages := 0; ; pages++ {
		page, err := a.store.Runs(a.Context(), ann, query)
		if err != nil || pages == 1000 {
			a.Fatalf("Runs, page %d: %v", pages, err)
		}
		for _, run := range page.Runs {
			seen[a.archive(query.Failed).at(run)]++
		}
		if !page.More {
			break
		}
		if query.OldestFirst {
			query.Low = page.Next
		} else {
			query.High = page.Next
		}
		if pages < 5 {
			a.fail(a.firstOf(a.start(runVariety(a.rng))))
			a.shake()
			if next := a.inDLQ[posthaste.DeadLetterID(page.Next)]; next != nil {
				a.removeFromDLQ(next)
			}
		}
	}
	a.refresh()
	after := there()
	for _, at := range before {
		if seen[at] != 1 && slices.Contains(after, at) {
			a.Errorf("what is at %d was seen %d times, want once", at, seen[at])
		}
	}
	for at, times := range seen {
		if times > 1 {
			a.Errorf("what is at %d was seen %d times", at, times)
		}
	}
}

// archive is all of the runs, or those in the DLQ.
func (a *runSet) archive(failed bool) *archive[*posthaste.Run] {
	runs := &archive[*posthaste.Run]{
		trial: a.trial, fields: runFields, things: a.runs, rng: a.rng,
		at:      func(run *posthaste.Run) posthaste.Position { return run.Position },
		matches: (*posthaste.Filter).MatchesRun,
		text: func(run *posthaste.Run) string {
			return fmt.Sprintf("%d %s %s", run.Position, run.ID, run.DeadLetterID)
		},
		read: func(q question) []*posthaste.Run {
			return a.trial.runs(ann, store.RunQuery{
				Filter: q.filter, Failed: failed, Low: q.low, High: q.high, OldestFirst: q.oldestFirst, Limit: q.limit,
			})
		},
	}
	if failed {
		runs.at = func(run *posthaste.Run) posthaste.Position { return posthaste.Position(run.DeadLetterID) }
		runs.things = slices.SortedFunc(maps.Values(a.inDLQ), func(x, y *posthaste.Run) int {
			return cmp.Compare(x.DeadLetterID, y.DeadLetterID)
		})
	}
	return runs
}
